//! `linerate fleet schedule`: a line a time, and a line a change.

use std::io::{Write as _, stderr};

use linerate_drive::SystemClock;
use linerate_drive::fleet::{Event, Keep, Reach, Scheduled, Webhook, is_kept, schedule};
use linerate_model::exit::Exit;
use linerate_model::fleet::FleetNotice;
use linerate_model::record::ErrorRecord;
use linerate_report::clean::clean;
use linerate_report::fleet as text;

use super::args::ScheduleArgs;
use super::{OnEvent, reached};
use crate::output::{self, Look, Output};
use crate::screen::Screen;

/// Runs until its time is over, or Ctrl-C, which is how it ends.
pub fn run(args: &ScheduleArgs, look: Look) -> Result<Exit, ErrorRecord> {
    // A service is started with the same words whether it is the first time or not.
    let resume = args.resume && is_kept(&args.keep)?;
    let keep = Keep { place: args.keep.clone(), resume };
    let asked = super::asked(&args.measured, 0, Some(keep))?;
    let scheduled = Scheduled {
        every: args.every.clone(),
        jitter_s: args.jitter,
        for_s: args.lasts,
        keep_for_s: args.keep_for,
    };
    let mut post =
        args.webhook.as_ref().map(|address| move |notice: &FleetNotice| address.post(notice));
    let webhook = args.webhook.as_ref().zip(post.as_mut());
    let webhook = webhook.map(|(address, post)| Webhook { to: &address.text, post });
    let stop = output::stop_at_signals()?;
    let mut screen = Screen::new(Output::Text, look, stop.clone(), ());
    let mut on_event = |event: &Event<'_>| match *event {
        Event::Note(note) => {
            let _ = writeln!(stderr(), "note: {}", clean(note));
        }
        Event::Over { number, begun, measured, of } => {
            screen.put(&text::over(number, begun, measured, of));
        }
        Event::Changed { change, unit } => screen.put(&text::change(change, unit)),
        Event::Time { .. } | Event::Ended { .. } => {}
    };
    let clock = SystemClock::default();
    let measure = |reach: &dyn Reach, on_event: &mut OnEvent<'_>| {
        schedule(&asked, &scheduled, webhook, (reach, &clock, &stop), on_event)
    };
    reached(args.measured.nats.as_deref(), &asked, &mut on_event, measure)?;
    screen.exit(None, &[])
}
