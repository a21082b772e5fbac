//! Words that the parts of one test's report share.

use linerate_model::record::Limit;

use crate::clean::clean;
use crate::number;

/// `1 packet`, `2 packets`.
pub(crate) fn plural(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", number::integer(n), if n == 1 { "" } else { "s" })
}

/// The limit in words.
pub fn headline(limit: Limit) -> &'static str {
    match limit {
        Limit::RequestedRate => "limited by the rate that was asked for",
        Limit::SenderCpu => "limited by the sender's CPU",
        Limit::SenderHost => "limited by the sender's host",
        Limit::Path => "limited by the path",
        Limit::ReceiverCpu => "limited by the receiver's CPU",
        Limit::ReceiverBuffer => "limited by the receiver's socket buffer",
        Limit::TcpWindow => "limited by TCP's window",
        Limit::TcpCongestion => "limited by loss and TCP's congestion control",
        Limit::RoundTrip => "limited by the time of a round trip",
        Limit::OtherWork => "limited by other work on the hosts",
        Limit::Unknown => "what limited it could not be shown",
    }
}

/// `limited by X: one; two.` Each reason may come with or without its full stop.
pub(super) fn sentence(headline: &str, because: &[String]) -> String {
    let reasons: Vec<String> = because
        .iter()
        .map(|b| clean(b).trim().trim_end_matches('.').to_owned())
        .filter(|b| !b.is_empty())
        .collect();
    let reasons = reasons.join("; ");
    if reasons.is_empty() { format!("{headline}.") } else { format!("{headline}: {reasons}.") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_become_one_sentence() {
        let because = ["core 2 was full.".to_owned(), "nothing else".to_owned()];
        assert_eq!(
            sentence("limited by x", &because),
            "limited by x: core 2 was full; nothing else."
        );
        assert_eq!(sentence("limited by x", &[]), "limited by x.");
    }
}
