//! `linerate report`: reads results, hands them to the report crate, writes what it gives back. No
//! file is begun before it is known that it can be written, and none is replaced before the new one
//! is whole.

mod store;

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write, stderr, stdin, stdout};
use std::path::{Path, PathBuf};

use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_report::clean::{clean, shell_word};
use linerate_report::number;
use linerate_report::report::format::{self, Format, Look};
use linerate_report::report::input::Input;
use linerate_report::report::view::View;

use linerate_ask::{help, usage};
use linerate_drive::search;
use linerate_model::exit::Exit;

/// A page, picture or table of any results: runs, sweeps, searches, tunings, comparisons, campaigns, together.
///
/// RESULT is what `--json` or `--json-lines` of a test, sweep, search, tuning, doctor, profile, comparison or
/// campaign printed, one document or many; the log of a search; the store of a campaign; what `iperf3 -J`
/// printed; or a .stat file (one run a line), of which the first is the baseline of the others. It
/// is known by its content. The form of the report is chosen by the ending of OUT: .html (one page with
/// all figures, zoomable, readable offline), .svg, .png, .md or .csv.
///
/// An existing file is replaced, all at once when the new one is whole, if it is a report of
/// linerate; any other file only with --force.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = help::report())]
pub struct ReportArgs {
    /// Files with results; `-` is standard input
    #[arg(required = true, value_name = "RESULT")]
    pub files: Vec<PathBuf>,

    /// Where to write; `-` is standard output. May be given several times
    #[arg(short, long, value_name = "OUT")]
    pub output: Vec<PathBuf>,

    /// Form of outputs whose ending says none: html, svg, png, md, csv
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,

    /// Report what can be read and list what cannot, instead of refusing all of it
    #[arg(long)]
    pub skip_damaged: bool,

    /// Replace an existing file that is no report
    #[arg(long)]
    pub force: bool,

    /// One figure alone, as a picture of slide size (1600x900) in a .png or .svg OUT; a wrong name
    /// lists those that there are
    #[arg(long, value_name = "NAME")]
    pub figure: Option<String>,

    /// Each figure as a picture of its own in this directory: NAME.png, or .svg with --format svg
    #[arg(long, value_name = "DIR")]
    pub figures: Option<PathBuf>,

    /// Dark pictures (.png) instead of light ones; pages and .svg follow their reader
    #[arg(long)]
    pub dark: bool,
}

/// Runs the command.
pub fn run(args: &ReportArgs) -> Result<Exit, ErrorRecord> {
    let outputs = outputs(args)?;
    let input = read(args)?;
    let view = View::new(&input, &command(args));
    if let Some(figure) = &args.figure
        && !view.figures().iter().any(|(name, _)| name == figure)
    {
        return Err(no_such_figure(&view, figure));
    }
    let pictures = pictures(args, &view)?;
    for damage in view.problems.iter().filter(|_| args.skip_damaged) {
        say(&format!("left out: {damage}\n"));
    }
    // A form that fails is reported when the others are safe.
    let mut failed = None;
    for output in outputs {
        failed = write(args, &view, output).err().or(failed);
    }
    for Picture { path, format, figure } in pictures {
        let done = output(&path, Some(format), args.force)
            .and_then(|plain| write(args, &view, Output { figure: Some(figure), ..plain }));
        failed = done.err().or(failed);
    }
    failed.map_or(Ok(Exit::Complete), Err)
}

/// Makes one form, puts it in its place and says so.
fn write(args: &ReportArgs, view: &View, mut output: Output) -> Result<(), ErrorRecord> {
    let figure = output.figure.clone().or_else(|| args.figure.clone());
    let look = Look { dark: args.dark, figure: figure.filter(|_| output.format.picture) };
    let bytes = (output.format.render)(view, &look)
        .map_err(|why| failure(format!("cannot make {}", output.name()), why, &[]))?;
    output.write(&bytes)?;
    if !output.is_stdout() {
        let size = number::bytes(bytes.len() as u64);
        say(&format!("{}: {}, {size}\n", output.name(), view.title));
    }
    Ok(())
}

fn no_such_figure(view: &View, figure: &str) -> ErrorRecord {
    let names: Vec<String> = view.figures().into_iter().map(|(name, _)| name).collect();
    let why = match names.as_slice() {
        [] => "there is no figure in what was given".to_owned(),
        names => format!("the figures are {}", names.join(", ")),
    };
    let hints = ["--figures DIR writes each of them"];
    usage::error(format!("no figure is named `{}`", clean(figure)), why, &hints)
}

/// A figure that gets a file of its own.
struct Picture {
    path: PathBuf,
    format: &'static Format,
    figure: String,
}

/// All of them, once each can be written. Their files are opened one after another: a thousand at once are more than a
/// process may have.
fn pictures(args: &ReportArgs, view: &View) -> Result<Vec<Picture>, ErrorRecord> {
    let Some(folder) = &args.figures else { return Ok(Vec::new()) };
    let wanted = args.format.as_deref().unwrap_or("png");
    let Some(format) = format::by_name(wanted).filter(|f| f.picture) else {
        let why = format!("{} is no form of a picture", clean(wanted));
        return Err(usage::error(
            "cannot write the figures",
            why,
            &["--format png", "--format svg"],
        ));
    };
    fs::create_dir_all(folder).map_err(|error| {
        let what = format!("cannot make the directory {}", folder.display());
        failure(what, error.to_string(), &["choose another place with --figures"])
    })?;
    let picture = |(figure, _)| {
        let path = folder.join(format!("{figure}.{}", format.name));
        // Its draft is gone with it.
        output(&path, Some(format), args.force)?;
        Ok(Picture { path, format, figure })
    };
    view.figures().into_iter().map(picture).collect()
}

/// Whoever does not read standard error misses nothing of the report.
fn say(text: &str) {
    let _ = stderr().write_all(text.as_bytes());
}

fn failure(what: String, why: String, hints: &[&str]) -> ErrorRecord {
    ErrorRecord::new(ErrorKind::Report, what, why, hints)
}

/// The command line that makes this report again.
fn command(args: &ReportArgs) -> String {
    let mut words = vec!["linerate".to_owned(), "report".to_owned()];
    words.extend(args.files.iter().map(|f| f.display().to_string()));
    for output in &args.output {
        words.extend(["-o".to_owned(), output.display().to_string()]);
    }
    words.extend(args.format.iter().flat_map(|f| ["--format".to_owned(), f.clone()]));
    words.extend(args.figure.iter().flat_map(|f| ["--figure".to_owned(), f.clone()]));
    if let Some(folder) = &args.figures {
        words.extend(["--figures".to_owned(), folder.display().to_string()]);
    }
    for (given, word) in [(args.skip_damaged, "--skip-damaged"), (args.dark, "--dark")] {
        if given {
            words.push(word.to_owned());
        }
    }
    let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

fn read(args: &ReportArgs) -> Result<Input, ErrorRecord> {
    let mut input = Input::default();
    for file in &args.files {
        let name =
            if file == Path::new("-") { "<stdin>".into() } else { file.display().to_string() };
        let mut bytes = Vec::new();
        let outcome = if file == Path::new("-") {
            stdin().lock().read_to_end(&mut bytes)
        } else {
            File::open(file).and_then(|mut f| f.read_to_end(&mut bytes))
        };
        match outcome {
            // A store has its log beside it, so it is opened again by its path.
            Ok(_) if bytes.starts_with(store::MAGIC) => store::read(&mut input, &name, file),
            Ok(_) if search::is_log(&bytes) => match search::document_of(&bytes) {
                Ok(document) => input.search(&name, document),
                Err(why) => input.damage(&name, why),
            },
            Ok(_) => input.read(&name, &bytes),
            Err(error) => input.damage(&name, format!("cannot read it: {error}")),
        }
    }
    let mut problems = input.damaged.iter();
    let Some(first) = problems.next() else { return Ok(input) };
    if args.skip_damaged && !input.items.is_empty() {
        return Ok(input);
    }
    let more: Vec<String> =
        problems.clone().take(4).map(|d| clean(&d.to_string()).into_owned()).collect();
    let mut why = clean(&first.to_string()).into_owned();
    for one in &more {
        why.push_str("; ");
        why.push_str(one);
    }
    let left = problems.count() - more.len();
    if left > 0 {
        why.push_str(&format!("; and {left} more"));
    }
    let hint: &[&str] = if input.items.is_empty() {
        &[
            "a result is what `linerate … --json` or `iperf3 -J` printed, a campaign's store or a .stat file",
        ]
    } else {
        &["--skip-damaged reports the rest and lists what was left out"]
    };
    Err(failure("not all results can be read, and nothing was written".into(), why, hint))
}

/// One report to be written.
struct Output {
    format: &'static Format,
    /// The figure that it is; none is all of the report, or what `--figure` says.
    figure: Option<String>,
    place: Place,
}

enum Place {
    Stdout,
    /// A device, a pipe: written as it is.
    Stream(PathBuf, File),
    /// A new file beside the one it will replace.
    File {
        target: PathBuf,
        draft: Draft,
    },
}

/// A file that vanishes unless it is kept.
struct Draft {
    path: PathBuf,
    file: File,
    kept: bool,
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.kept {
            // Nothing can be done about a draft that stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn outputs(args: &ReportArgs) -> Result<Vec<Output>, ErrorRecord> {
    let asked = match &args.format {
        Some(name) => Some(format::by_name(name).ok_or_else(|| {
            let why = format!("the forms are {}", format::names());
            usage::error(format!("cannot use `--format {}`", clean(name)), why, &[])
        })?),
        None => None,
    };
    let mut paths = args.output.clone();
    if paths.is_empty() && args.figures.is_none() {
        if asked.is_none() {
            let hints = ["linerate report result.json -o report.html"];
            return Err(usage::error(
                "nowhere to write the report",
                "-o or --format is missing",
                &hints,
            ));
        }
        paths.push("-".into());
    }
    let outputs: Result<Vec<Output>, ErrorRecord> =
        paths.iter().map(|path| output(path, asked, args.force)).collect();
    let outputs = outputs?;
    if args.figure.is_some() && !outputs.iter().any(|o| o.format.picture) {
        let hint = ["--figure NAME -o figure.png"];
        return Err(usage::error("cannot write one figure", "no OUT is a .png or .svg", &hint));
    }
    Ok(outputs)
}

fn output(path: &Path, asked: Option<&'static Format>, force: bool) -> Result<Output, ErrorRecord> {
    let ending = path.extension().and_then(|e| e.to_str()).and_then(format::by_name);
    let Some(format) = ending.or(asked) else {
        let why = format!("its ending is none of {}", format::names());
        let hints = ["-o report.html", "--format html says the form where there is no ending"];
        return Err(usage::error(
            format!("cannot infer the form of {}", path.display()),
            why,
            &hints,
        ));
    };
    if path == Path::new("-") {
        if stdout().is_terminal() && !format.text {
            let why = format!("{} is no text and standard output is a terminal", format.name);
            return Err(usage::error("cannot show the report here", why, &["-o report.png"]));
        }
        return Ok(Output { format, figure: None, place: Place::Stdout });
    }
    let cannot = |error: &io::Error| {
        failure(
            format!("cannot write {}, and nothing was begun", path.display()),
            error.to_string(),
            &["choose another place with -o"],
        )
    };
    match fs::metadata(path) {
        Ok(known) if known.is_dir() => {
            let hint = format!("-o {}", path.join("report.html").display());
            return Err(failure(
                format!("cannot write {}", path.display()),
                "it is a directory".into(),
                &[&hint],
            ));
        }
        Ok(known) if !known.is_file() => {
            let file = OpenOptions::new().write(true).open(path).map_err(|e| cannot(&e))?;
            return Ok(Output {
                format,
                figure: None,
                place: Place::Stream(path.to_owned(), file),
            });
        }
        Ok(_) if !force && !is_report(path, format).map_err(|e| cannot(&e))? => {
            return Err(failure(
                format!(
                    "{} exists and is no {} report of linerate, so it stays as it is",
                    path.display(),
                    format.name
                ),
                "a report replaces only what it can see to be a report".into(),
                &["choose another name with -o", "--force replaces it"],
            ));
        }
        _ => {}
    }
    // A link keeps pointing where it does; what it points to is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = target.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let draft = target.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let file =
        OpenOptions::new().write(true).create_new(true).open(&draft).map_err(|e| cannot(&e))?;
    if target.exists() {
        // What may not be written may not be replaced either.
        if let Err(error) = OpenOptions::new().append(true).open(&target) {
            let _ = fs::remove_file(&draft);
            return Err(cannot(&error));
        }
    }
    let draft = Draft { path: draft, file, kept: false };
    Ok(Output { format, figure: None, place: Place::File { target, draft } })
}

/// Whether a file is empty or begins like a report of this form.
fn is_report(path: &Path, format: &Format) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(format::HEAD as u64).read_to_end(&mut head)?;
    Ok(head.is_empty() || (format.is_report)(&head))
}

impl Output {
    fn is_stdout(&self) -> bool {
        matches!(self.place, Place::Stdout)
    }

    fn name(&self) -> String {
        match &self.place {
            Place::Stdout => format!("the {} report", self.format.name),
            Place::Stream(path, _) | Place::File { target: path, .. } => path.display().to_string(),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ErrorRecord> {
        let done = match &mut self.place {
            Place::Stdout => match stdout().write_all(bytes).and_then(|()| stdout().flush()) {
                // Whoever read the output had enough of it.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                other => other,
            },
            Place::Stream(_, file) => file.write_all(bytes),
            Place::File { target, draft } => draft
                .file
                .write_all(bytes)
                .and_then(|()| draft.file.sync_all())
                .and_then(|()| fs::rename(&draft.path, target))
                .map(|()| draft.kept = true),
        };
        done.map_err(|error| {
            failure(
                format!("cannot write {}", self.name()),
                error.to_string(),
                &["an older report there is unharmed"],
            )
        })
    }
}
