//! The Python package of `python/`, by its own tests against this program.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{alone, skip};

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python")
}

/// What a step printed, if it came to its end.
fn ended(what: &str, output: &Output) -> String {
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{what}: {text}");
    text
}

/// The package's tests by this Python, which finds it where `path` says.
fn tests(python: &Path, path: Option<&Path>) -> String {
    let mut command = Command::new(python);
    command.args(["-m", "unittest", "discover", "-s", "tests"]).current_dir(package());
    command.env("LINERATE", env!("CARGO_BIN_EXE_linerate")).env("PYTHONDONTWRITEBYTECODE", "1");
    if let Some(path) = path {
        command.env("PYTHONPATH", path);
    }
    ended("its tests", &command.output().expect("python3"))
}

/// Whether there is a Python that the package is for; says so if not.
fn possible(test: &str) -> bool {
    let version = "import sys; sys.exit(sys.version_info < (3, 10))";
    let there = Command::new("python3").args(["-c", version]).status().is_ok_and(|s| s.success());
    if !there {
        skip(test, "there is no python3 of 3.10 or later");
    }
    there
}

#[test]
fn the_package_reads_what_this_program_says() {
    let test = "the_package_reads_what_this_program_says";
    if !possible(test) {
        return;
    }
    let _alone = alone();
    let said = tests(Path::new("python3"), Some(&package().join("src")));
    assert!(said.contains("\nOK"), "{said}");
    // `unittest` passes with tests that it left out.
    if said.contains("(skipped=") {
        skip(test, "its frames: pandas is not installed");
    }
}

/// Of what others installed beside it nothing is seen: `-S` leaves out `site-packages`, `-I` the user's and variables.
#[test]
fn it_needs_nothing_but_python() {
    if !possible("it_needs_nothing_but_python") {
        return;
    }
    let import = "import sys; sys.path.insert(0, 'src'); import linerate; linerate.udp";
    let mut python = Command::new("python3");
    python.args(["-I", "-S", "-B", "-c", import]).current_dir(package());
    ended("importing it", &python.output().expect("python3"));
}

#[test]
#[ignore = "long"]
fn its_wheel_is_built_typed_and_tried_where_nothing_else_is_installed() {
    let test = "its_wheel_is_built_typed_and_tried_where_nothing_else_is_installed";
    if !possible(test) {
        return;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("python-wheel");
    let _ = std::fs::remove_dir_all(&folder);
    let run = |program: &Path, words: &[&str]| {
        Command::new(program).args(words).current_dir(package()).output().expect("a program")
    };
    let venv = folder.join("venv").display().to_string();
    ended("venv", &run(Path::new("python3"), &["-m", "venv", &venv]));
    let python = folder.join("venv/bin/python");
    let tools = ["-m", "pip", "install", "-q", "build", "hatchling", "mypy", "pandas"];
    if !run(&python, &tools).status.success() {
        return skip(test, "no packages of Python can be had here");
    }
    let made = folder.join("dist").display().to_string();
    ended("build", &run(&python, &["-m", "build", "-q", "--no-isolation", "--outdir", &made]));
    let wheel = format!("{made}/linerate-{}-py3-none-any.whl", env!("CARGO_PKG_VERSION"));
    ended("install", &run(&python, &["-m", "pip", "install", "-q", "--no-deps", &wheel]));
    let of_it = "import importlib.metadata as m; print(*m.files('linerate'))";
    let files = ended("its files", &run(&python, &["-c", of_it]));
    for file in ["py.typed", "LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(files.contains(file), "the wheel has no {file}: {files}");
    }
    ended("types", &run(&python, &["-m", "mypy", "--strict", "src", "tools"]));
    let _alone = alone();
    let said = tests(&python, None);
    assert!(said.contains("\nOK\n"), "nothing may be skipped, for pandas is there: {said}");
    let _ = std::fs::remove_dir_all(&folder);
}
