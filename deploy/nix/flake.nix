# nix run ./deploy/nix -- udp --local
# Builds of the tree that it lies in, which must be a clone. docs/releases.md says what of it was checked.
{
  description = "Measures network paths and says what limits them";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "riscv64-linux" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "linerate";
          version = (builtins.fromTOML (builtins.readFile ../../Cargo.toml)).workspace.package.version;
          src = ../..;
          cargoLock.lockFile = ../../Cargo.lock;
          cargoBuildFlags = [ "-p" "linerate" ];
          buildType = "dist";
          # Tests want namespaces and peers, which a build has not.
          doCheck = false;
          nativeBuildInputs = [ pkgs.installShellFiles ];
          postInstall = ''
            $out/bin/linerate man --dir .
            installManPage *.1
            installShellCompletion --cmd linerate \
              --bash <($out/bin/linerate completions bash) \
              --zsh <($out/bin/linerate completions zsh) \
              --fish <($out/bin/linerate completions fish)
          '';
          meta = {
            description = "Measures network paths and says what limits them";
            license = with pkgs.lib.licenses; [ mit asl20 ];
            mainProgram = "linerate";
            platforms = systems;
          };
        };
      });
    };
}
