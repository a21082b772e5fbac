# Homebrew on Linux. `cargo xtask formulae URL` fills in the address and the sum.
# docs/releases.md says what of it was checked.
class Linerate < Formula
  desc "Measures network paths and says what limits them"
  homepage "@URL@"
  url "@URL@/linerate-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build
  depends_on :linux

  def install
    system "cargo", "install", "--profile", "dist", *std_cargo_args(path: "crates/linerate")
    generate_completions_from_executable(bin/"linerate", "completions")
    man1.mkpath
    system bin/"linerate", "man", "--dir", man1
  end

  service do
    run [opt_bin/"linerate", "serve"]
    keep_alive true
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/linerate --version")
    system bin/"linerate", "tcp", "--local", "-t", "1s"
  end
end
