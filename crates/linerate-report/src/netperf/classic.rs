//! The columns of netperf's tests of old, one form for each kind.

use super::value::method;
use super::{End, Figures, Kind, Options, Test, Unit, unit, unit_of_bytes};

/// What was measured.
pub(super) fn show(options: &Options, figures: &Figures) -> String {
    let cpu = options.cpu_here || options.cpu_there;
    if options.verbosity == 0 {
        return brief(options, figures, cpu);
    }
    let (head, line) = match (options.test.kind(), options.udp, cpu) {
        (Kind::Asks, _, false) => requests(options, figures),
        (Kind::Asks, _, true) => requests_and_cpu(options, figures),
        (_, true, _) => datagrams(options, figures, cpu),
        (_, false, false) => stream(options, figures),
        (_, false, true) => stream_and_cpu(options, figures),
    };
    let head = if options.headers { head } else { String::new() };
    let more = if options.verbosity > 1 { details(options, figures) } else { String::new() };
    format!("{head}{line}{more}")
}

/// The one figure of `-v 0`: of datagrams what was sent.
fn brief(options: &Options, figures: &Figures, cpu: bool) -> String {
    let brand = brand(options);
    if !cpu {
        let rate = figures.throughput(options);
        let sent = || unit(options).0.of(figures.a_second(|run| run.here.sent), 0.0, 0);
        return match options.test {
            Test::UdpStream => format!("{:7.2}\n", sent()),
            Test::TcpCrr | Test::TcpCc => format!("{rate:7.2}\n"),
            _ => format!("{rate:7.2} {brand}\n"),
        };
    }
    let demand = figures.demand(options, options.cpu_here).unwrap_or(-1.0);
    let method = method(figures.end(options.cpu_here));
    match options.test {
        Test::UdpStream => format!("{demand:6.2} {method}\n"),
        Test::TcpCrr | Test::TcpCc => format!("{demand:6.3}\n"),
        _ => format!("{demand:6.3} {method} {brand}\n"),
    }
}

/// `-B`: without headers it distinguishes one line from another.
fn brand(options: &Options) -> &str {
    if options.headers || options.connections { "" } else { &options.brand }
}

/// A size, or nothing known of it.
fn size(size: Option<u64>) -> String {
    size.map_or("-1".to_owned(), |size| size.to_string())
}

fn busy(end: &End) -> f64 {
    end.cpu.map_or(-1.0, |cpu| cpu.busy)
}

/// Who receives, who sends, and the bytes of a send call.
fn stream_sizes(options: &Options, figures: &Figures) -> [String; 3] {
    let (to, from) = match options.test.kind() {
        Kind::Receives => (&figures.here, &figures.there),
        _ => (&figures.there, &figures.here),
    };
    [size(to.receive_buffer.0), size(from.send_buffer.0), size(from.send_size.map(u64::from))]
}

fn stream(options: &Options, figures: &Figures) -> (String, String) {
    let head = format!(
        "Recv   Send    Send                          \n\
         Socket Socket  Message  Elapsed              \n\
         Size   Size    Size     Time     Throughput  \n\
         bytes  bytes   bytes    secs.    {}/sec  \n\n",
        unit(options).1
    );
    let [to, from, message] = stream_sizes(options, figures);
    let (seconds, rate) = (figures.elapsed_s, figures.throughput(options));
    let brand = brand(options);
    (head, format!("{to:>6} {from:>6} {message:>6}    {seconds:<6.2}   {rate:7.2}   {brand}\n"))
}

fn stream_and_cpu(options: &Options, figures: &Figures) -> (String, String) {
    let (Figures { here, there, .. }, name) = (figures, unit(options).1);
    let (local, remote) = match options.test.kind() {
        Kind::Receives => ("Recv", "Send"),
        _ => ("Send", "Recv"),
    };
    let head = format!(
        "Recv   Send    Send                          Utilization       Service Demand\n\
         Socket Socket  Message  Elapsed              {local}     {remote}     {local}    {remote}\n\
         Size   Size    Size     Time     Throughput  local    remote   local   remote\n\
         bytes  bytes   bytes    secs.    {name:<8}/s  % {}      % {}      us/KB   us/KB\n\n",
        method(here),
        method(there),
    );
    let [to, from, message] = stream_sizes(options, figures);
    let (seconds, rate) = (figures.elapsed_s, figures.throughput(options));
    let demand = |here: bool| figures.demand(options, here).unwrap_or(-1.0);
    let line = format!(
        "{to:>6} {from:>6} {message:>6}    {seconds:<6.2}     {rate:7.2}   {:<6.2}   {:<6.2}   \
         {:<6.3}  {:<6.3} {}\n",
        busy(here),
        busy(there),
        demand(true),
        demand(false),
        brand(options),
    );
    (head, line)
}

fn datagrams(options: &Options, figures: &Figures, cpu: bool) -> (String, String) {
    let (Figures { here, there, .. }, name) = (figures, unit(options).1);
    let seconds = figures.elapsed_s;
    let (near, far) = (size(here.send_buffer.0), size(there.receive_buffer.0));
    let message = size(here.send_size.map(u64::from));
    let (sent, refused) = (here.send_calls, figures.refused);
    let arrived = there.receive_calls;
    let amounts: [fn(&Figures) -> f64; 2] = [|run| run.here.sent, |run| run.there.received];
    let rates = amounts.map(|bytes| unit(options).0.of(figures.a_second(bytes), 0.0, 0));
    if !cpu {
        let head = format!(
            "Socket  Message  Elapsed      Messages                \n\
             Size    Size     Time         Okay Errors   Throughput\n\
             bytes   bytes    secs            #      #   {name}/sec\n\n"
        );
        let line = format!(
            "{near:>6}  {message:>6}   {seconds:<7.2} {sent:9.0} {refused:6.0}    {:7.2}\n\
             {far:>6}           {seconds:<7.2} {arrived:9.0}           {:7.2}\n\n",
            rates[0], rates[1]
        );
        return (head, line);
    }
    let head = format!(
        "Socket  Message  Elapsed      Messages                   CPU      Service\n\
         Size    Size     Time         Okay Errors   Throughput   Util     Demand\n\
         bytes   bytes    secs            #      #   {name}/sec % {}{}     us/KB\n\n",
        method(here),
        method(there)
    );
    let demand = |here: bool| figures.demand(options, here).unwrap_or(-1.0);
    let line = format!(
        "{near:>6}  {message:>6}   {seconds:<7.2} {sent:9.0} {refused:6.0}   {:8.1}     {:<6.2}   {:<6.3}\n\
         {far:>6}           {seconds:<7.2} {arrived:9.0}          {:8.1}     {:<6.2}   {:<6.3}\n\n",
        rates[0],
        busy(here),
        demand(true),
        rates[1],
        busy(there),
        demand(false)
    );
    (head, line)
}

/// Buffers of this end, sizes; and those of the server, on a line of their own.
fn request_sizes(options: &Options, figures: &Figures) -> ([String; 2], [u32; 2], String) {
    let Figures { here, there, .. } = figures;
    let (request, response) = options.sizes.unwrap_or((1, 1));
    let far = format!("{:<6} {:<6}\n", size(there.send_buffer.0), size(there.receive_buffer.0));
    ([size(here.send_buffer.0), size(here.receive_buffer.0)], [request, response], far)
}

fn requests(options: &Options, figures: &Figures) -> (String, String) {
    let (unit, name) = unit(options);
    let ends = match unit {
        Unit::Transactions => [
            "Elapsed  Trans.".to_owned(),
            "Time     Rate         ".to_owned(),
            "secs.    per sec   ".to_owned(),
        ],
        _ => [
            "Elapsed  ".to_owned(),
            "Time     Throughput ".to_owned(),
            format!("secs.    {name}/sec   "),
        ],
    };
    let head = format!(
        "Local /Remote\n\
         Socket Size   Request  Resp.   {}\n\
         Send   Recv   Size     Size    {}\n\
         bytes  Bytes  bytes    bytes   {}\n\n",
        ends[0], ends[1], ends[2]
    );
    let ([send, receive], [request, response], far) = request_sizes(options, figures);
    let (seconds, rate) = (figures.elapsed_s, figures.throughput(options));
    let brand = brand(options);
    let line = format!(
        "{send:<6} {receive:<6} {request:<6}   {response:<6}  {seconds:<6.2}   {rate:7.2}   \
         {brand}\n{far}"
    );
    (head, line)
}

fn requests_and_cpu(options: &Options, figures: &Figures) -> (String, String) {
    let Figures { here, there, .. } = figures;
    let (rates, of, demand_of) = match unit(options) {
        (Unit::Transactions, _) => ("Trans.  ", "Rate    ".to_owned(), ["per sec", "us/Tr"]),
        (_, name) => ("Tput    ", format!("{name:<8}"), ["per sec", "us/KB"]),
    };
    let [per, each] = demand_of;
    // Of connections the way in which the CPU was measured is not said.
    let methods = match options.connections {
        true => "%      %      ".to_owned(),
        false => format!("% {}    % {}    ", method(here), method(there)),
    };
    let head = format!(
        "Local /Remote\n\
         Socket Size   Request Resp.  Elapsed {rates} CPU    CPU    S.dem   S.dem\n\
         Send   Recv   Size    Size   Time    {of} local  remote local   remote\n\
         bytes  bytes  bytes   bytes  secs.   {per}  {methods}{each}   {each}\n\n"
    );
    let ([send, receive], [request, response], far) = request_sizes(options, figures);
    let (seconds, rate) = (figures.elapsed_s, figures.throughput(options));
    let demand = |here: bool| figures.demand(options, here).unwrap_or(-1.0);
    let (gap, end) = if options.connections { ("   ", "") } else { ("  ", " ") };
    let line = format!(
        "{send:<6} {receive:<6} {request:<6}  {response:<6} {seconds:<6.2}  {rate:<6.2}{gap}{:<6.2} \
         {:<6.2} {:<6.3}  {:<6.3}{end}{}\n{far}",
        busy(here),
        busy(there),
        demand(true),
        demand(false),
        brand(options),
    );
    (head, line)
}

/// What `-v 2` adds.
fn details(options: &Options, figures: &Figures) -> String {
    let Figures { here, there, .. } = figures;
    match (options.test.kind(), options.udp) {
        (_, true) => String::new(),
        (Kind::Asks, _) if options.connections => {
            let remote = if options.test == Test::TcpCc { 0 } else { 8 };
            format!(
                "\nAlignment      Offset\n\
                 Local  Remote  Local  Remote\n\
                 Send   Recv    Send   Recv\n{:5}  {remote:5}   {:5}  {:5}\n",
                8, 0, 0
            )
        }
        (Kind::Asks, _) => {
            let rate = figures.a_second(|run| run.transactions);
            let latency = Unit::Latency.of(0.0, rate, options.burst());
            let (unit, name) = unit_of_bytes(options);
            let carried = |size: u32| unit.of(rate * f64::from(size), 0.0, 0);
            let (request, response) = options.sizes.unwrap_or((1, 1));
            format!(
                "Alignment      Offset         RoundTrip  Trans    Throughput\n\
                 Local  Remote  Local  Remote  Latency    Rate     {name:<8}/s\n\
                 Send   Recv    Send   Recv    usec/Tran  per sec  Outbound   Inbound\n\
                 {:5}  {:5}   {:5}  {:5}   {latency:<6.3}   {rate:<6.3} {:<6.3}    {:<6.3} \n",
                8,
                0,
                0,
                0,
                carried(request),
                carried(response),
            )
        }
        (kind, false) => {
            let names = if kind == Kind::Sends { ["Send", "Recv"] } else { ["Recv", "Send"] };
            let calls = match kind {
                Kind::Sends => [here.send_calls, there.receive_calls],
                _ => [here.receive_calls, there.send_calls],
            };
            let bytes = figures.carried(options);
            let each = calls.map(|calls| if calls > 0.0 { bytes / calls } else { 0.0 });
            let [local, remote] = names;
            let mss = figures.mss.map_or("-1".to_owned(), |mss| mss.to_string());
            format!(
                "\nAlignment      Offset         Bytes    Bytes       {local}s   Bytes    {remote}s\n\
                 Local  Remote  Local  Remote  Xfered   Per                 Per\n\
                 {local}   {remote}    {local}   {remote}             {local} (avg)          {remote} (avg)\n\
                 {:5}   {:5}  {:5}   {:5} {bytes:6.0}  {:<8.2}{:10.0}   {:<8.2} {:6.0}\n\n\
                 Maximum\nSegment\nSize (bytes)\n{mss:>6}\n",
                8, 8, 0, 0, each[0], calls[0], each[1], calls[1],
            )
        }
    }
}
