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

# the program and its packages for TARGET, or for all; also --twice, --agents, --server
dist *ARGS:
    cargo xtask dist {{ARGS}}

# the source as an archive that will lie below URL, and files by which others build of it
formulae URL:
    cargo xtask formulae {{URL}}

# docs/pictures, anew, from real runs
picture:
    cargo xtask picture

# what a registry asks of each crate; also --dry-run
crates *ARGS:
    cargo xtask crates {{ARGS}}

# the library's interface beside that of a release; needs cargo-semver-checks
semver TAG:
    cargo semver-checks -p linerate --baseline-rev {{TAG}}

# docs/reliability.md, anew
proofs:
    cargo xtask proofs

# licences, sources, advisories
deny:
    cargo deny check

# licences alone, where cargo-deny is not installed
licences:
    cargo xtask licences

# virtual machines that reboot and lose power
lab *NAMES:
    lab/run {{NAMES}}

# speed, as ratios; also --base COMMIT
bench *ARGS:
    bench/run {{ARGS}}

# what a broker and a database carry
bench-fleet:
    bench/fleet

# what a first build costs
bench-build:
    bench/build

# false alarms and speed of comparisons; a whole default sweep
bench-others:
    bench/compare.sh
    bench/sweep.sh

# size of a report, and how soon a browser has opened it
bench-report *ARGS:
    bench/report.sh {{ARGS}}

# each limit, made in namespaces, is called by its name
truth:
    cargo test --workspace --test program -- --ignored truth::full_table --nocapture

# hosts made bad on purpose are told by name
doctor:
    cargo test --workspace --test program -- --ignored doctor:: --nocapture

# tuning of made-up hosts finds what is best
tuned:
    LINERATE_LONG=1 cargo test -p linerate-experiment --test tuned -- --nocapture

# client and server as libraries, in one process
both-ends:
    cargo test --workspace --test both_ends

# packages made twice, installed, upgraded, removed; what packagers need
packages:
    cargo test -p xtask --test packages --test formulae

# no advice makes a test worse
advice:
    cargo test --workspace --test program -- --ignored truth::every_advice --nocapture

# each option of netperf, nuttcp and iperf 2 against the real programs
options:
    cargo test --workspace --test program -- --ignored every_option::

# clients of every kind leave nothing at a server
soak MINUTES="10":
    LINERATE_LONG=1 LINERATE_MINUTES={{MINUTES}} cargo test --workspace --test program soak:: -- --ignored --nocapture --test-threads=1

# whole tests of each dialect under a made-up clock
seeds COUNT="1000000":
    LINERATE_SEEDS={{COUNT}} cargo test -p linerate-dialect --test whole -- --nocapture

# programs of other machines, built by `just dist all`
foreign:
    cargo test --workspace --test program foreign:: -- --ignored

# engine, data and runner under a sanitizer: address, thread
sanitizers KIND:
    proofs/sanitizers {{KIND}}

# that tests find what cargo-mutants changes; also 0/100
mutants *PART:
    proofs/mutants {{PART}}

# parsers of what the peers of a test send
fuzz *ARGS:
    proofs/fuzz {{ARGS}}

# one parser, as long as you like
fuzz-one NAME *ARGS:
    cargo +nightly fuzz run {{NAME}} {{ARGS}}
