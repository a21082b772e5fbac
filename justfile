# CONTRIBUTING.md says what each proves and how long it takes. `just` lists them.
_:
    @just --list --unsorted

# the program, soon: target/release/linerate
build:
    cargo build --release

# the program to hand out: target/dist/linerate
hand-out:
    cargo build --profile dist

# what every change must pass; also --long, --busy COUNT
test *ARGS:
    ./test {{ARGS}}

# layout as it must be
format:
    cargo fmt --all

# lints of the compiler and clippy
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# what the compiler cannot check; also --numbers
tidy *ARGS:
    cargo xtask tidy {{ARGS}}

# one file of tests of the program, with its long ones
program NAME:
    cargo test --workspace --test program {{NAME}}:: -- --include-ignored

# the pages of docs/ as a site
book:
    cargo xtask book

# the program and its packages for another machine, or for all
dist TARGET:
    cargo xtask dist {{TARGET}}

# docs/pictures, anew, from real runs
picture:
    cargo xtask picture

# what a registry asks of each crate
crates:
    cargo xtask crates

# docs/reliability.md, anew
proofs:
    cargo xtask proofs

# licences, sources, advisories
deny:
    cargo deny check

# virtual machines that reboot and lose power
lab *NAMES:
    lab/run {{NAMES}}

# speed, as ratios
bench:
    bench/run

# every parser of what strangers send
fuzz *ARGS:
    proofs/fuzz {{ARGS}}
