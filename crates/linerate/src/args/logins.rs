//! Logins of iperf3's clients at `linerate serve`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use linerate_model::limits;
use linerate_model::record::ErrorRecord;
use linerate_runner::logins::{self, Logins, Settings};

use linerate_ask::usage;

/// A day apart is no clock.
const SKEW: limits::Limit = limits::Limit {
    name: "seconds between clocks",
    min: 1,
    max: 86_400,
    why: "a login may be used within this time",
    options: &[],
};

const HEADING: &str = "Logins of iperf3's clients";

/// Always read, so that a program without logins can say so by name.
#[derive(Debug, Clone, Args)]
pub struct LoginArgs {
    /// RSA private key (PEM, without a password) that logins of iperf3's clients are encrypted for.
    /// Every one of them must then log in; linerate's own need --key-file.
    #[arg(long, value_name = "FILE", help_heading = HEADING, hide = !logins::BUILT)]
    rsa_private_key_path: Option<PathBuf>,
    /// Users of iperf3's clients, a line NAME,HASH each: printf '{NAME}PASSWORD' | sha256sum.
    #[arg(long, value_name = "FILE", help_heading = HEADING, hide = !logins::BUILT)]
    authorized_users_path: Option<PathBuf>,
    /// Take logins of iperf3 up to 3.16 (padding PKCS#1 v1.5), and no others.
    #[arg(long, help_heading = HEADING, hide = !logins::BUILT)]
    use_pkcs1_padding: bool,
    /// Most seconds between the clocks of client and server [default: 10].
    #[arg(long, value_name = "SECONDS", help_heading = HEADING, hide = !logins::BUILT)]
    time_skew_threshold: Option<u64>,
}

impl LoginArgs {
    /// The file of users, which is read at each login: a new one may take its place at any time.
    pub fn users(&self) -> Option<&Path> {
        self.authorized_users_path.as_deref()
    }

    /// The logins, if they are asked for.
    pub fn open(&self) -> Result<Option<Arc<Logins>>, ErrorRecord> {
        self.settings(logins::BUILT)?
            .map(|settings| Logins::open(&settings).map(Arc::new))
            .transpose()
    }

    /// How they are checked, if they are asked for of a program that was `built` with them.
    fn settings(&self, built: bool) -> Result<Option<Settings>, ErrorRecord> {
        let given = [
            ("--rsa-private-key-path", self.rsa_private_key_path.is_some()),
            ("--authorized-users-path", self.authorized_users_path.is_some()),
            ("--use-pkcs1-padding", self.use_pkcs1_padding),
            ("--time-skew-threshold", self.time_skew_threshold.is_some()),
        ];
        let Some((name, _)) = given.iter().find(|(_, given)| *given) else { return Ok(None) };
        let what = format!("cannot use {name}");
        if !built {
            return Err(usage::error(what, logins::NOT_BUILT, &[logins::HOW_TO_BUILD]));
        }
        let (Some(private_key), Some(users)) =
            (self.rsa_private_key_path.clone(), self.authorized_users_path.clone())
        else {
            let why = "logins need both --rsa-private-key-path and --authorized-users-path";
            return Err(usage::error(what, why, &[]));
        };
        let skew_s = self.time_skew_threshold.unwrap_or(logins::SKEW_S);
        let skew_s = usage::within("--time-skew-threshold", &SKEW, skew_s)?;
        Ok(Some(Settings { private_key, users, pkcs1: self.use_pkcs1_padding, skew_s }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        logins: LoginArgs,
    }

    #[test]
    fn without_the_feature_each_flag_is_refused_by_name() {
        assert_eq!(Line::parse_from(["serve"]).logins.settings(false).unwrap(), None);
        for flag in [
            &["--rsa-private-key-path", "k"][..],
            &["--authorized-users-path", "u"],
            &["--use-pkcs1-padding"],
            &["--time-skew-threshold", "5"],
        ] {
            let line = Line::parse_from([&["serve"], flag].concat());
            let error = line.logins.settings(false).unwrap_err();
            assert!(
                error.what.contains(flag[0]) && error.why.contains("built without"),
                "{error:?}"
            );
            assert!(error.hints[0].contains("--features iperf3-auth"), "{error:?}");
        }
    }
}
