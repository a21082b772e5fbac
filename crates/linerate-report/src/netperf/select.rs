//! What users of netperf may ask to see of a test, with `-O`, `-o` and `-k`.

use super::Figures;
use super::value::value;
use super::{Options, Style};

/// A figure that can be asked for.
pub(super) struct Selector {
    /// As it is asked for.
    pub(super) name: &'static str,
    /// Above its column, from top to bottom.
    head: &'static str,
    /// What netperf says whatever happens: of what it no longer finds out, and of games with caches and
    /// offsets that are not played here.
    fixed: Option<&'static str>,
}

const fn known(name: &'static str, head: &'static str) -> Selector {
    Selector { name, head, fixed: None }
}

const fn fixed(name: &'static str, head: &'static str, text: &'static str) -> Selector {
    Selector { name, head, fixed: Some(text) }
}

/// In the order of `all`.
const SELECTORS: &[Selector] = &[
    known("SOCKET_TYPE", "Socket|Type"),
    known("PROTOCOL", "Protocol"),
    known("DIRECTION", "Direction"),
    known("ELAPSED_TIME", "Elapsed|Time|(sec)"),
    known("THROUGHPUT", "Throughput"),
    known("THROUGHPUT_UNITS", "Throughput|Units"),
    known("LSS_SIZE_REQ", "Local|Send Socket|Size|Requested"),
    known("LSS_SIZE", "Local|Send Socket|Size|Initial"),
    known("LSS_SIZE_END", "Local|Send Socket|Size|Final"),
    known("LSR_SIZE_REQ", "Local|Recv Socket|Size|Requested"),
    known("LSR_SIZE", "Local|Recv Socket|Size|Initial"),
    known("LSR_SIZE_END", "Local|Recv Socket|Size|Final"),
    known("RSS_SIZE_REQ", "Remote|Send Socket|Size|Requested"),
    known("RSS_SIZE", "Remote|Send Socket|Size|Initial"),
    known("RSS_SIZE_END", "Remote|Send Socket|Size|Final"),
    known("RSR_SIZE_REQ", "Remote|Recv Socket|Size|Requested"),
    known("RSR_SIZE", "Remote|Recv Socket|Size|Initial"),
    known("RSR_SIZE_END", "Remote|Recv Socket|Size|Final"),
    known("LOCAL_SEND_SIZE", "Local|Send|Size"),
    known("LOCAL_RECV_SIZE", "Local|Recv|Size"),
    known("REMOTE_SEND_SIZE", "Remote|Send|Size"),
    known("REMOTE_RECV_SIZE", "Remote|Recv|Size"),
    known("REQUEST_SIZE", "Request|Size|Bytes"),
    known("RESPONSE_SIZE", "Response|Size|Bytes"),
    known("LOCAL_CPU_UTIL", "Local|CPU|Util|%"),
    known("LOCAL_CPU_PERCENT_USER", "Local|CPU|User|%"),
    known("LOCAL_CPU_PERCENT_SYSTEM", "Local|CPU|System|%"),
    fixed("LOCAL_CPU_PERCENT_IOWAIT", "Local|CPU|I/O|%", "0.00"),
    fixed("LOCAL_CPU_PERCENT_IRQ", "Local|CPU|IRQ|%", "0.00"),
    known("LOCAL_CPU_PERCENT_SWINTR", "Local|CPU|swintr|%"),
    known("LOCAL_CPU_METHOD", "Local|CPU|Util|Method"),
    known("LOCAL_SD", "Local|Service|Demand"),
    known("REMOTE_CPU_UTIL", "Remote|CPU|Util|%"),
    known("REMOTE_CPU_PERCENT_USER", "Remote|CPU|User|%"),
    known("REMOTE_CPU_PERCENT_SYSTEM", "Remote|CPU|System|%"),
    fixed("REMOTE_CPU_PERCENT_IOWAIT", "Remote|CPU|I/O|%", "0.00"),
    fixed("REMOTE_CPU_PERCENT_IRQ", "Remote|CPU|IRQ|%", "0.00"),
    known("REMOTE_CPU_PERCENT_SWINTR", "Remote|CPU|swintr|%"),
    known("REMOTE_CPU_METHOD", "Remote|CPU|Util|Method"),
    known("REMOTE_SD", "Remote|Service|Demand"),
    known("SD_UNITS", "Service|Demand|Units"),
    known("CONFIDENCE_LEVEL", "Confidence|Level|Percent"),
    known("CONFIDENCE_INTERVAL", "Confidence|Width|Target"),
    known("CONFIDENCE_ITERATION", "Confidence|Iterations|Run"),
    known("THROUGHPUT_CONFID", "Throughput|Confidence|Width (%)"),
    known("LOCAL_CPU_CONFID", "Local|CPU|Confidence|Width (%)"),
    known("REMOTE_CPU_CONFID", "Remote|CPU|Confidence|Width (%)"),
    known("TRANSACTION_RATE", "Transaction|Rate|Tran/s"),
    known("RT_LATENCY", "Round|Trip|Latency|usec/tran"),
    known("BURST_SIZE", "Initial|Burst|Requests"),
    known("LOCAL_TRANSPORT_RETRANS", "Local|Transport|Retransmissions"),
    known("REMOTE_TRANSPORT_RETRANS", "Remote|Transport|Retransmissions"),
    known("TRANSPORT_MSS", "Transport|MSS|bytes"),
    known("LOCAL_SEND_THROUGHPUT", "Local|Send|Throughput"),
    known("LOCAL_RECV_THROUGHPUT", "Local|Recv|Throughput"),
    known("REMOTE_SEND_THROUGHPUT", "Remote|Send|Throughput"),
    known("REMOTE_RECV_THROUGHPUT", "Remote|Recv|Throughput"),
    known("LOCAL_CPU_BIND", "Local|CPU|Bind"),
    known("LOCAL_CPU_COUNT", "Local|CPU|Count"),
    known("LOCAL_CPU_PEAK_UTIL", "Local|Peak|Per CPU|Util %"),
    known("LOCAL_CPU_PEAK_ID", "Local|Peak|Per CPU|ID"),
    fixed("LOCAL_CPU_MODEL", "Local|CPU|Model", "Deprecated"),
    fixed("LOCAL_CPU_FREQUENCY", "Local|CPU|Frequency|MHz", "0"),
    known("REMOTE_CPU_BIND", "Remote|CPU|Bind"),
    known("REMOTE_CPU_COUNT", "Remote|CPU|Count"),
    known("REMOTE_CPU_PEAK_UTIL", "Remote|Peak|Per CPU|Util %"),
    known("REMOTE_CPU_PEAK_ID", "Remote|Peak|Per CPU|ID"),
    fixed("REMOTE_CPU_MODEL", "Remote|CPU|Model", "Deprecated"),
    fixed("REMOTE_CPU_FREQUENCY", "Remote|CPU|Frequency|MHz", "0"),
    known("SOURCE_PORT", "Source|Port"),
    known("SOURCE_ADDR", "Source|Address"),
    known("SOURCE_FAMILY", "Source|Family"),
    known("DEST_PORT", "Destination|Port"),
    known("DEST_ADDR", "Destination|Address"),
    known("DEST_FAMILY", "Destination|Family"),
    known("LOCAL_SEND_CALLS", "Local|Send|Calls"),
    known("LOCAL_RECV_CALLS", "Local|Recv|Calls"),
    known("LOCAL_BYTES_PER_RECV", "Local|Bytes|Per|Recv"),
    known("LOCAL_BYTES_PER_SEND", "Local|Bytes|Per|Send"),
    known("LOCAL_BYTES_SENT", "Local|Bytes|Sent"),
    known("LOCAL_BYTES_RECVD", "Local|Bytes|Received"),
    known("LOCAL_BYTES_XFERD", "Local|Bytes|Xferred"),
    fixed("LOCAL_SEND_OFFSET", "Local|Send|Offset", "0"),
    fixed("LOCAL_RECV_OFFSET", "Local|Recv|Offset", "0"),
    fixed("LOCAL_SEND_ALIGN", "Local|Send|Alignment", "8"),
    fixed("LOCAL_RECV_ALIGN", "Local|Recv|Alignment", "8"),
    fixed("LOCAL_SEND_WIDTH", "Local|Send|Width", "1"),
    fixed("LOCAL_RECV_WIDTH", "Local|Recv|Width", "1"),
    fixed("LOCAL_SEND_DIRTY_COUNT", "Local|Send|Dirty|Count", "-1"),
    fixed("LOCAL_RECV_DIRTY_COUNT", "Local|Recv|Dirty|Count", "-1"),
    fixed("LOCAL_RECV_CLEAN_COUNT", "Local|Recv|Clean|Count", "-1"),
    known("LOCAL_NODELAY", "Local|NODELAY"),
    fixed("LOCAL_CORK", "Local|Cork", "0"),
    known("REMOTE_SEND_CALLS", "Remote|Send|Calls"),
    known("REMOTE_RECV_CALLS", "Remote|Recv|Calls"),
    known("REMOTE_BYTES_PER_RECV", "Remote|Bytes|Per|Recv"),
    known("REMOTE_BYTES_PER_SEND", "Remote|Bytes|Per|Send"),
    known("REMOTE_BYTES_SENT", "Remote|Bytes|Sent"),
    known("REMOTE_BYTES_RECVD", "Remote|Bytes|Received"),
    known("REMOTE_BYTES_XFERD", "Remote|Bytes|Xferred"),
    fixed("REMOTE_SEND_OFFSET", "Remote|Send|Offset", "0"),
    fixed("REMOTE_RECV_OFFSET", "Remote|Recv|Offset", "0"),
    fixed("REMOTE_SEND_ALIGN", "Remote|Send|Alignment", "8"),
    fixed("REMOTE_RECV_ALIGN", "Remote|Recv|Alignment", "8"),
    fixed("REMOTE_SEND_WIDTH", "Remote|Send|Width", "1"),
    fixed("REMOTE_RECV_WIDTH", "Remote|Recv|Width", "1"),
    fixed("REMOTE_SEND_DIRTY_COUNT", "Remote|Send|Dirty|Count", "-1"),
    fixed("REMOTE_RECV_DIRTY_COUNT", "Remote|Recv|Dirty|Count", "-1"),
    fixed("REMOTE_RECV_CLEAN_COUNT", "Remote|Recv|Clean|Count", "-1"),
    known("REMOTE_NODELAY", "Remote|NODELAY"),
    fixed("REMOTE_CORK", "Remote|Cork", "0"),
    fixed("LOCAL_SYSNAME", "Local|Sysname", "Deprecated"),
    fixed("LOCAL_SYSTEM_MODEL", "Local|System|Model", "Deprecated"),
    fixed("LOCAL_RELEASE", "Local|Release", "Deprecated"),
    fixed("LOCAL_VERSION", "Local|Version", "Deprecated"),
    fixed("LOCAL_MACHINE", "Local|Machine", "Deprecated"),
    fixed("REMOTE_SYSNAME", "Remote|Sysname", "Deprecated"),
    fixed("REMOTE_SYSTEM_MODEL", "Remote|System|Model", "Deprecated"),
    fixed("REMOTE_RELEASE", "Remote|Release", "Deprecated"),
    fixed("REMOTE_VERSION", "Remote|Version", "Deprecated"),
    fixed("REMOTE_MACHINE", "Remote|Machine", "Deprecated"),
    fixed("LOCAL_INTERFACE_NAME", "Local|Interface|Name", "Deprecated"),
    fixed("LOCAL_INTERFACE_VENDOR", "Local|Interface|Vendor", "0xfffffffe"),
    fixed("LOCAL_INTERFACE_DEVICE", "Local|Interface|Device", "0xfffffffe"),
    fixed("LOCAL_INTERFACE_SUBVENDOR", "Local|Interface|Subvendor", "0xfffffffe"),
    fixed("LOCAL_INTERFACE_SUBDEVICE", "Local|Interface|Subdevice", "0xfffffffe"),
    fixed("LOCAL_DRIVER_NAME", "Local|Driver|Name", "Deprecated"),
    fixed("LOCAL_DRIVER_VERSION", "Local|Driver|Version", "Deprecated"),
    fixed("LOCAL_DRIVER_FIRMWARE", "Local|Driver|Firmware", "Deprecated"),
    fixed("LOCAL_DRIVER_BUS", "Local|Driver|Bus", "Deprecated"),
    fixed("LOCAL_INTERFACE_SLOT", "Local|Interface|Slot", "Deprecated"),
    fixed("REMOTE_INTERFACE_NAME", "Remote|Interface|Name", "Deprecated"),
    fixed("REMOTE_INTERFACE_VENDOR", "Remote|Interface|Vendor", "0xfffffffe"),
    fixed("REMOTE_INTERFACE_DEVICE", "Remote|Interface|Device", "0xfffffffe"),
    fixed("REMOTE_INTERFACE_SUBVENDOR", "Remote|Interface|Subvendor", "0xfffffffe"),
    fixed("REMOTE_INTERFACE_SUBDEVICE", "Remote|Interface|Subdevice", "0xfffffffe"),
    fixed("REMOTE_DRIVER_NAME", "Remote|Driver|Name", "Deprecated"),
    fixed("REMOTE_DRIVER_VERSION", "Remote|Driver|Version", "Deprecated"),
    fixed("REMOTE_DRIVER_FIRMWARE", "Remote|Driver|Firmware", "Deprecated"),
    fixed("REMOTE_DRIVER_BUS", "Remote|Driver|Bus", "Deprecated"),
    fixed("REMOTE_INTERFACE_SLOT", "Remote|Interface|Slot", "Deprecated"),
    fixed("LOCAL_INTERVAL_USECS", "Local|Interval|Usecs", "0"),
    fixed("LOCAL_INTERVAL_BURST", "Local|Interval|Burst", "0"),
    fixed("REMOTE_INTERVAL_USECS", "Remote|Interval|Usecs", "0"),
    fixed("REMOTE_INTERVAL_BURST", "Remote|Interval|Burst", "0"),
    fixed("LOCAL_SECURITY_TYPE_ID", "Local|OS|Security|Type ID", "0"),
    fixed("LOCAL_SECURITY_TYPE", "Local|OS|Security|Type", "Deprecated"),
    fixed("LOCAL_SECURITY_ENABLED_NUM", "Local|OS|Security|Enabled Num", "0"),
    fixed("LOCAL_SECURITY_ENABLED", "Local|OS|Security|Enabled", "Deprecated"),
    fixed("LOCAL_SECURITY_SPECIFIC", "Local|OS|Security|Specific", "Deprecated"),
    fixed("REMOTE_SECURITY_TYPE_ID", "Remote|OS|Security|Type", "0"),
    fixed("REMOTE_SECURITY_TYPE", "Remote|OS|Security|Type", "Deprecated"),
    fixed("REMOTE_SECURITY_ENABLED_NUM", "Remote|OS|Security|Enabled", "0"),
    fixed("REMOTE_SECURITY_ENABLED", "Remote|OS|Security|Enabled", "Deprecated"),
    fixed("REMOTE_SECURITY_SPECIFIC", "Remote|OS|Security|Specific", "Deprecated"),
    known("RESULT_BRAND", "Result|Tag"),
    known("UUID", "Test|UUID"),
    known("MIN_LATENCY", "Minimum|Latency|Microseconds"),
    known("MAX_LATENCY", "Maximum|Latency|Microseconds"),
    known("P50_LATENCY", "50th|Percentile|Latency|Microseconds"),
    known("P90_LATENCY", "90th|Percentile|Latency|Microseconds"),
    known("P99_LATENCY", "99th|Percentile|Latency|Microseconds"),
    known("MEAN_LATENCY", "Mean|Latency|Microseconds"),
    known("STDDEV_LATENCY", "Stddev|Latency|Microseconds"),
    known("LOCAL_SOCKET_PRIO", "Local|Socket|Priority"),
    known("REMOTE_SOCKET_PRIO", "Remote|Socket|Priority"),
    known("LOCAL_SOCKET_TOS", "Local|Socket|TOS"),
    known("REMOTE_SOCKET_TOS", "Remote|Socket|TOS"),
    known("LOCAL_CONG_CONTROL", "Local|Congestion|Control|Algorithm"),
    known("REMOTE_CONG_CONTROL", "Remote|Congestion|Control|Algorithm"),
    known("LOCAL_FILL_FILE", "Local|Fill|File"),
    known("REMOTE_FILL_FILE", "Remote|Fill|File"),
    known("COMMAND_LINE", "Command|Line"),
];

/// What is shown of a test where nothing is named.
const SENDS: &str =
    "LSS_SIZE_END,RSR_SIZE_END,LOCAL_SEND_SIZE,ELAPSED_TIME,THROUGHPUT,THROUGHPUT_UNITS";
const RECEIVES: &str =
    "RSS_SIZE_END,LSR_SIZE_END,REMOTE_SEND_SIZE,ELAPSED_TIME,THROUGHPUT,THROUGHPUT_UNITS";
const ASKS: &str = "LSS_SIZE_END,LSR_SIZE_END,RSR_SIZE_END,RSS_SIZE_END,REQUEST_SIZE,RESPONSE_SIZE,\
                    ELAPSED_TIME,THROUGHPUT,THROUGHPUT_UNITS";
const CPU: [&str; 7] = [
    "CPU_UTIL",
    "CPU_PERCENT_USER",
    "CPU_PERCENT_SYSTEM",
    "CPU_PERCENT_IOWAIT",
    "CPU_PERCENT_IRQ",
    "CPU_PERCENT_SWINTR",
    "CPU_METHOD",
];

/// The names that can be asked for, as `?` lists them.
pub fn names() -> String {
    let names = SELECTORS.iter().map(|selector| selector.name);
    let all = std::iter::once("OUTPUT_NONE").chain(names).chain(["OUTPUT_END"]);
    all.map(|name| format!("{name}\n")).collect()
}

/// Whether it names anything that can be asked for; else it may name a file that does.
pub fn is_selection(text: &str) -> bool {
    text.is_empty()
        || text.eq_ignore_ascii_case("all")
        || text.split(BETWEEN).any(|n| find(n).is_some())
}

const BETWEEN: [char; 4] = [',', ';', '\n', ' '];

fn find(name: &str) -> Option<&'static Selector> {
    let name = name.trim();
    SELECTORS.iter().find(|selector| selector.name.eq_ignore_ascii_case(name))
}

fn default(options: &Options) -> String {
    let mut names = match options.test.kind() {
        super::Kind::Sends => SENDS,
        super::Kind::Receives => RECEIVES,
        super::Kind::Asks => ASKS,
    }
    .to_owned();
    let ends = [("LOCAL", options.cpu_here), ("REMOTE", options.cpu_there)];
    let measured = || ends.iter().filter(|(_, asked)| *asked).map(|(end, _)| end);
    for end in measured() {
        CPU.iter().for_each(|name| names.push_str(&format!(",{end}_{name}")));
    }
    measured().for_each(|end| names.push_str(&format!(",{end}_SD")));
    if measured().next().is_some() {
        names.push_str(",SD_UNITS");
    }
    names
}

/// Groups of selectors: each is a block of columns.
fn groups(selection: &str) -> Vec<Vec<Option<&'static Selector>>> {
    if selection.eq_ignore_ascii_case("all") {
        return vec![SELECTORS.iter().map(Some).collect()];
    }
    let group = |names: &str| {
        names.split(&BETWEEN[..]).filter(|n| !n.trim().is_empty()).map(find).collect()
    };
    selection.split([';', '\n']).filter(|names| !names.trim().is_empty()).map(group).collect()
}

/// The figures that were asked for.
pub(super) fn show(options: &Options, figures: &Figures, style: Style, selection: &str) -> String {
    let names = if selection.is_empty() { default(options) } else { selection.to_owned() };
    let groups = groups(&names);
    let text = |selector: &Option<&'static Selector>| match selector {
        Some(selector) => match selector.fixed {
            Some(text) => text.to_owned(),
            None => value(options, figures, selector.name),
        },
        None => String::new(),
    };
    let all = || groups.iter().flatten();
    match style {
        Style::Keys => all()
            // Without a mark of the user's there is no line for it.
            .filter(|s| !options.brand.is_empty() || s.is_none_or(|s| s.name != "RESULT_BRAND"))
            .filter_map(|selector| {
                Some(format!("{}={}\n", selector.as_ref()?.name, text(selector)))
            })
            .collect(),
        Style::Csv => {
            let joined = |selector: &'static Selector| selector.head.replace('|', " ");
            let heads: Vec<String> = all().flatten().map(|s| joined(s)).collect();
            let values: Vec<String> = all().map(text).collect();
            let heads =
                if options.headers { format!("{}\n", heads.join(",")) } else { String::new() };
            format!("{heads}{}\n", values.join(","))
        }
        Style::Columns => {
            let block = |group: &Vec<Option<&'static Selector>>| columns(options, group, &text);
            groups.iter().map(block).collect::<Vec<_>>().join("\n")
        }
    }
}

fn columns(
    options: &Options,
    group: &[Option<&'static Selector>],
    text: &dyn Fn(&Option<&'static Selector>) -> String,
) -> String {
    let mut lines = vec![String::new(); if options.headers { 5 } else { 1 }];
    for selector in group {
        let mut cells: Vec<String> = Vec::new();
        if options.headers {
            let heads = selector.map_or("", |selector| selector.head);
            cells.extend(heads.split('|').map(str::to_owned));
            cells.resize(4, String::new());
        }
        let shown = text(selector);
        let heads = selector.map_or("", |selector| selector.head).split('|');
        let width = heads.map(str::len).max().unwrap_or(0).max(shown.len() + 1);
        cells.push(shown);
        for (line, cell) in lines.iter_mut().zip(cells) {
            line.push_str(&format!("{cell:width$} "));
        }
    }
    lines.into_iter().map(|line| line + "\n").collect()
}
