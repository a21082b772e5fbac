//! `linerate doctor`.

use linerate_ask::doctor::DoctorArgs;
use linerate_drive::doctor;
use linerate_model::doctor::Severity;
use linerate_model::exit::Exit;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_report::run::json;
use linerate_runner::agent::{Hand, HostAgent, Options, set_for_good, state_directory};

use crate::output::{self, Look, Output};
use crate::screen::Screen;

/// Looks, and shows what was found.
pub fn run(args: &DoctorArgs, look: Look) -> Result<Exit, ErrorRecord> {
    let output = if args.json { Output::Json } else { Output::Text };
    let mut screen = Screen::new(output, look, output::stop_at_signals()?, ());
    let mut found =
        screen.watch(|env| doctor::run(args, output::command(), env, &mut take_over))?;
    if args.keep_if_better {
        let state = state_directory();
        doctor::keep(&mut found, |device, setting| set_for_good(&state, device, setting));
    }
    match output {
        Output::Text => {
            screen.put(&linerate_report::doctor::text(&found, screen.layout, args.verbose))
        }
        _ => screen.json(json::document(&found)),
    }
    let error = found.proof.as_ref().and_then(|proof| proof.error.as_ref());
    let grave = found.findings.iter().any(|finding| finding.severity > Severity::Note);
    let exit = screen.exit(error, &[])?;
    Ok(if grave && exit == Exit::Complete { Exit::Found } else { exit })
}

/// This host, with linerate's own file for the helper that keeps its settings.
pub fn take_over() -> Result<Box<dyn HostAgent>, ErrorRecord> {
    let program = std::env::current_exe().map_err(|e| {
        ErrorRecord::new(ErrorKind::Unable, "cannot find linerate's own file", e.to_string(), &[])
    })?;
    let options = Options {
        program,
        state: state_directory(),
        commands: false,
        reboot: None,
        profile: false,
    };
    let (hand, _) = Hand::take(options)?;
    Ok(Box::new(hand))
}
