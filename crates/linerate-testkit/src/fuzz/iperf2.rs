use linerate_wire::framing::Framing;
use linerate_wire::iperf2::burst::Reader;
use linerate_wire::iperf2::datagram::{MARK_BYTES, Mark};
use linerate_wire::iperf2::{Ack, Header, Report};

/// The most that is looked at of one thing, in bytes.
const EACH: usize = 160;

/// Headers of streams and datagrams, numbers, acknowledgements and reports of iperf 2, one after the other.
pub fn iperf2(data: &[u8]) {
    data.chunks(EACH).for_each(one);
}

fn one(data: &[u8]) {
    if let Ok((_, length)) = Header::read(data) {
        assert!(length <= data.len());
    }
    if let Some(header) = Header::of_datagram(data) {
        // What this end would write says the same, as far as it is asked for.
        let ours = Header { version: None, ..header };
        let (again, _) = Header::read(&ours.encode()).unwrap_or((header, 0));
        assert_eq!(
            (again.streams, again.length, again.reverse),
            (header.streams, header.length, header.reverse)
        );
    }
    if let Some(report) = Report::decode(data) {
        // Of delays a square microsecond more or less is lost on the way.
        let kept = |report: Report| Report { delays: None, ..report };
        assert_eq!(Report::decode(&report.encode()).map(kept), Some(kept(report)));
    }
    if let Some(ack) = Ack::decode(data) {
        assert_eq!(Ack::decode(&ack.encode()), Some(ack));
    }
    // In one piece or in two, a stream has the same blocks.
    let blocks = |pieces: [&[u8]; 2]| {
        let (mut reader, mut blocks) = (Reader::new(0), Vec::new());
        pieces.iter().for_each(|piece| reader.read(piece, |burst| blocks.push(burst)));
        blocks
    };
    let (head, tail) = data.split_at(data.len() / 3);
    assert_eq!(blocks([data, &[]]), blocks([head, tail]));
    for wide in [false, true] {
        let framing = Framing::Iperf2 { wide, ahead_ns: 0, agree: false };
        let (mark, end) = (framing.read(data), framing.end(data));
        // It is data, or its end, or neither.
        assert!(mark.is_err() || end.is_none());
        if let Some(mark) = Mark::read(true, data) {
            let mut again = [0; MARK_BYTES];
            mark.write(&mut again);
            assert_eq!(data.get(..MARK_BYTES), Some(&again[..]));
        }
    }
}
