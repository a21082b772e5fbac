//! Queueing disciplines as the doctor asks for them: kinds, rates and lengths.

use linerate_model::doctor::QdiscDetails;

use super::qdisc::{RTM_GETQDISC, RTM_NEWQDISC, TC_H_ROOT, TCMSG_BYTES};
use super::{NLM_F_DUMP, Netlink, Refusal, attribute, text, u32_at};

/// Those on the way out of an interface, the root first. An interface without one has `noqueue`.
pub(crate) fn read(netlink: &mut Netlink, interface: u32) -> Result<Vec<QdiscDetails>, Refusal> {
    let mut found: Vec<(bool, QdiscDetails)> = Vec::new();
    netlink.ask(RTM_GETQDISC, NLM_F_DUMP, &[0; TCMSG_BYTES], |kind, body| {
        if kind == RTM_NEWQDISC {
            found.extend(discipline(body, interface));
        }
    })?;
    found.sort_by_key(|(root, _)| !root);
    Ok(found.into_iter().map(|(_, discipline)| discipline).collect())
}

/// Whether it is the root, and what it is. Those on the way in (`ingress`, `clsact`) are none.
pub(super) fn discipline(body: &[u8], interface: u32) -> Option<(bool, QdiscDetails)> {
    let parent = u32_at(body, 12)?;
    if u32_at(body, 4)? != interface || (parent != TC_H_ROOT && parent >= 0xffff_0000) {
        return None;
    }
    let attributes = body.get(TCMSG_BYTES..)?;
    let kind = text(attribute(attributes, TCA_KIND)?);
    let options = attribute(attributes, TCA_OPTIONS).unwrap_or_default();
    let details = QdiscDetails {
        rate_bps: rate(&kind, options)
            .and_then(|bytes| bytes.checked_mul(8))
            .filter(|bps| *bps > 0),
        limit_packets: limit(&kind, options),
        kind,
    };
    Some((parent == TC_H_ROOT, details))
}

/// Bytes per second that it lets through (include/uapi/linux/pkt_sched.h).
fn rate(kind: &str, options: &[u8]) -> Option<u64> {
    let wide = |options: &[u8], number| u64_at(attribute(options, number)?);
    match kind {
        // TCA_TBF_RATE64; struct tc_ratespec begins TCA_TBF_PARMS and has the rate at 8.
        "tbf" => wide(options, 4).or_else(|| Some(u64::from(u32_at(attribute(options, 1)?, 8)?))),
        // TCA_CAKE_BASE_RATE64; 0 is no limit.
        "cake" => wide(options, 2),
        // TCA_FQ_FLOW_MAX_RATE; the largest is no limit, and without pacing (TCA_FQ_RATE_ENABLE) none holds.
        "fq" => {
            let paces = attribute(options, 5).and_then(|on| u32_at(on, 0)) != Some(0);
            let most = u32_at(attribute(options, 7)?, 0)?;
            (paces && most < u32::MAX).then_some(u64::from(most))
        }
        // After struct tc_netem_qopt: TCA_NETEM_RATE64, TCA_NETEM_RATE.
        "netem" => {
            let options = options.get(24..)?;
            wide(options, 8).or_else(|| Some(u64::from(u32_at(attribute(options, 6)?, 0)?)))
        }
        _ => None,
    }
}

/// Packets that it holds.
fn limit(kind: &str, options: &[u8]) -> Option<u32> {
    match kind {
        // struct tc_fifo_qopt.
        "pfifo" => u32_at(options, 0),
        "fq" | "fq_pie" => u32_at(attribute(options, 1)?, 0),
        "fq_codel" | "codel" | "pie" => u32_at(attribute(options, 2)?, 0),
        _ => None,
    }
}

fn u64_at(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;

#[cfg(test)]
mod tests {
    use super::super::{put_attribute, put_words};
    use super::*;

    fn message(parent: u32, kind: &str, options: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        put_words(&mut body, &[0, 3, 0x8001_0000, parent, 2]);
        put_attribute(&mut body, TCA_KIND, format!("{kind}\0").as_bytes());
        put_attribute(&mut body, TCA_OPTIONS, options);
        body
    }

    fn one(kind: &str, options: &[u8]) -> QdiscDetails {
        discipline(&message(TC_H_ROOT, kind, options), 3).expect("a discipline").1
    }

    #[test]
    fn known_answers() {
        let mut bucket = Vec::new();
        let mut parameters = Vec::new();
        put_words(&mut parameters, &[0, 0, 12_500_000]);
        put_attribute(&mut bucket, 1, &parameters);
        assert_eq!(one("tbf", &bucket).rate_bps, Some(100_000_000));
        put_attribute(&mut bucket, 4, &5_000_000_000_u64.to_ne_bytes());
        assert_eq!(one("tbf", &bucket).rate_bps, Some(40_000_000_000));
        assert_eq!(one("pfifo", &7_u32.to_ne_bytes()).limit_packets, Some(7));
        let mut queue = Vec::new();
        put_attribute(&mut queue, 2, &10_240_u32.to_ne_bytes());
        assert_eq!(one("fq_codel", &queue).limit_packets, Some(10_240));
        let mut cake = Vec::new();
        put_attribute(&mut cake, 2, &0_u64.to_ne_bytes());
        assert_eq!(one("cake", &cake).rate_bps, None);
        for (most, rate_bps) in [(12_500_000, Some(100_000_000)), (u32::MAX, None)] {
            let mut flows = Vec::new();
            put_attribute(&mut flows, 7, &most.to_ne_bytes());
            assert_eq!(one("fq", &flows).rate_bps, rate_bps);
            put_attribute(&mut flows, 5, &0_u32.to_ne_bytes());
            assert_eq!(one("fq", &flows).rate_bps, None, "without pacing");
        }
        assert_eq!(
            one("noqueue", &[]),
            QdiscDetails { kind: "noqueue".into(), ..Default::default() }
        );
    }

    #[test]
    fn those_on_the_way_in_and_of_others_are_left_out() {
        assert_eq!(discipline(&message(0xffff_fff1, "ingress", &[]), 3), None);
        assert_eq!(discipline(&message(TC_H_ROOT, "fq", &[]), 4), None);
        assert!(discipline(&message(0x0001_0002, "fq", &[]), 3).is_some_and(|(root, _)| !root));
    }
}
