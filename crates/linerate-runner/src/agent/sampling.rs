//! Samples of this host's CPUs for a controller. The kernel is asked when the server starts, before it gives its
//! rights up; what comes later only switches on and off what was opened then.

use linerate_host::profile::{self, Opened, SampleOptions, Sampler};
use linerate_model::doubt::TestEnd;
use linerate_model::exit::Exit;
use linerate_model::profile::{HostProfile, Scope};
use linerate_model::record::{ErrorKind, ErrorRecord};

use crate::clock::Stopwatch;
use crate::errors;

/// What samples, as far as the owner permits it.
#[derive(Default)]
pub(crate) enum Sampling {
    /// Nobody may.
    #[default]
    Forbidden,
    /// This system does not let the server.
    Refused(ErrorRecord),
    /// Nobody has yet.
    Opened(Box<Opened>),
    /// Somebody does, since then, or has.
    Started(Box<Sampler>, Option<Stopwatch>),
}

impl Sampling {
    /// Asks the kernel, where a controller may sample.
    pub(super) fn open(permitted: bool) -> Self {
        if !permitted {
            return Self::Forbidden;
        }
        // Whole cores: the threads of tests are not those that the calling one starts.
        match profile::open(SampleOptions { scope: Some(Scope::Cores), event: None }) {
            Ok(opened) => Self::Opened(Box::new(opened.with_names())),
            Err(refused) => {
                let what = "cannot sample the CPUs of this host";
                let error = ErrorRecord::new(ErrorKind::Unable, what, refused.why, &[]);
                Self::Refused(error.with_hints(refused.hints).ending(Exit::Unreachable))
            }
        }
    }

    /// Begins to sample, anew where it had begun.
    pub(super) fn begin(&mut self) -> Result<(), ErrorRecord> {
        let (sampler, since) = self.sampler()?;
        sampler.begin();
        *since = Some(Stopwatch::start());
        Ok(())
    }

    /// Ends it. Other programs of this host have no names in what it gives.
    pub(super) fn end(&mut self) -> Result<HostProfile, ErrorRecord> {
        let (sampler, since) = self.sampler()?;
        let Some(since) = since.take() else {
            return Err(errors::unable("end the sampling", "it had not begun"));
        };
        let seconds = since.elapsed().as_secs_f64();
        let samples =
            sampler.end().map_err(|e| errors::unable("sample the CPUs", &e.to_string()))?;
        Ok(samples.of_linerate_alone().of_host(vec![TestEnd::Server], seconds))
    }

    /// Ends what a controller that is gone had begun, so that the next one cannot read it.
    pub(super) fn stop(&mut self) {
        if let Self::Started(sampler, since) = self
            && since.take().is_some()
        {
            sampler.discard();
        }
    }

    fn sampler(&mut self) -> Result<(&mut Sampler, &mut Option<Stopwatch>), ErrorRecord> {
        if let Self::Opened(_) = self
            && let Self::Opened(opened) = std::mem::take(self)
        {
            let started = (*opened).start();
            let started =
                started.map_err(|e| errors::unable("start the sampler", &e.to_string()))?;
            *self = Self::Started(Box::new(started), None);
        }
        match self {
            Self::Started(sampler, since) => Ok((&mut **sampler, since)),
            Self::Refused(error) => Err(error.clone()),
            Self::Opened(_) | Self::Forbidden => Err(ErrorRecord::new(
                ErrorKind::Policy,
                "sampling is refused",
                "this host lets nobody sample its CPUs",
                &["start its server with --allow-profile"],
            )
            .ending(Exit::Unreachable)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_samples_where_it_is_not_permitted_and_nothing_ends_that_has_not_begun() {
        let mut forbidden = Sampling::open(false);
        for refused in [forbidden.begin().unwrap_err(), forbidden.end().unwrap_err()] {
            assert_eq!(refused.kind, ErrorKind::Policy, "{refused:?}");
            assert!(refused.hints[0].contains("--allow-profile"));
        }
        let mut sampling = Sampling::open(true);
        if let Sampling::Refused(why) = &sampling {
            linerate_testkit::skip(
                "an end without a beginning",
                &format!("nobody may sample: {why:?}"),
            );
            return;
        }
        assert!(sampling.end().unwrap_err().why.contains("not begun"));
        sampling.begin().unwrap();
        let host = sampling.end().unwrap();
        assert_eq!(host.ends, [TestEnd::Server]);
        assert!(sampling.end().is_err(), "once each");
        // The next controller finds nothing of one that went before its end.
        sampling.begin().unwrap();
        sampling.stop();
        assert!(sampling.end().unwrap_err().why.contains("not begun"));
        sampling.begin().unwrap();
        assert!(sampling.end().is_ok(), "it can be used again");
    }
}
