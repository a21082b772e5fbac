//! netperf's dialect: its messages.

use linerate_wire::netperf::{Ask, FRAME_BYTES, Frame, Response, Results, ask};

/// A message of either end: read as all that it may be, written, read again.
pub fn netperf_message(data: &[u8]) {
    let Some(frame) = Frame::read(data) else {
        assert!(data.len() < FRAME_BYTES);
        return;
    };
    if let Ask::Test(Ok(mut request)) = ask(&frame) {
        // In whatever form it came, it is answered in that, and can be asked in today's.
        let _ = Response::default().answer(&request);
        let _ = Results::default().answer(0, &request);
        request.old = None;
        assert_eq!(ask(&request.encode()), Ask::Test(Ok(request)));
    }
    if let Ok(response) = Response::read(&frame) {
        assert_eq!(Response::read(&response.encode()), Ok(response));
    }
    for cpu in [false, true] {
        let Ok(results) = Results::read(&frame, cpu) else { continue };
        let again = Results::read(&results.encode(0), cpu).expect("our own message");
        // A float of 24 bits holds the time.
        assert!(again.elapsed_ns.abs_diff(results.elapsed_ns) <= (results.elapsed_ns >> 22) + 1);
        assert_eq!((again.received, again.sent), (results.received, results.sent));
        assert_eq!(again.cpu, results.cpu);
    }
}
