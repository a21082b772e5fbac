//! One test as data: the options of `udp`, `tcp` and `rr` by their long names with `_` for `-`. The
//! command line fills the same types; what is not said has the same default.

use clap::{Args, FromArgMatches};
use linerate_model::plan::TrafficKind;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::common::{OutputArgs, Show, Sockets, Span, Way};
use crate::datagrams::Datagrams;
use crate::rr::RrArgs;
use crate::target::Where;
use crate::tcp::TcpArgs;
use crate::udp::UdpArgs;
use crate::usage::{self, Refusal};
use crate::{Asked, Measure};

/// The verbs of one test.
pub const VERBS: [TrafficKind; 3] = [TrafficKind::Tcp, TrafficKind::Udp, TrafficKind::Rr];

/// Understands and checks a test.
///
/// # Errors
/// Which option makes no sense, and why.
pub fn asked(verb: TrafficKind, options: &[(String, Value)]) -> Result<Asked, Refusal> {
    match verb {
        TrafficKind::Udp => read::<UdpArgs>(verb, options)?.asked(),
        TrafficKind::Tcp => read::<TcpArgs>(verb, options)?.asked(),
        TrafficKind::Rr => read::<RrArgs>(verb, options)?.asked(),
    }
}

fn read<T: DeserializeOwned>(verb: TrafficKind, options: &[(String, Value)]) -> Result<T, Refusal> {
    let known = Measure::options(verb.name());
    let shown = of_screen_and_file();
    for (key, value) in options {
        let name = key.replace('_', "-");
        // A profile is a file that may change between two runs of a plan.
        let option = known.iter().find(|known| known.trim_start_matches("--") == name);
        let option = option.filter(|_| name != "profile");
        let alone = Map::from_iter([(key.clone(), value.clone())]);
        let why = match (option, serde_json::from_value::<T>(Value::Object(alone))) {
            (None, _) if key != "host" => "there is no such option".to_owned(),
            _ if shown.contains(&name) => {
                "it is of what a command line shows and keeps, and would be ignored".to_owned()
            }
            (_, Err(why)) => why.to_string(),
            (_, Ok(_)) => continue,
        };
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let what = format!("cannot use `--{name} {shown}`");
        return Err(usage::refusal(
            &option.map(String::as_str).into_iter().collect::<Vec<_>>(),
            what,
            why,
            &[],
        ));
    }
    let all = Value::Object(options.iter().cloned().collect());
    serde_json::from_value(all)
        .map_err(|e| usage::refusal(&[], "cannot use these options together", e.to_string(), &[]))
}

/// Options of how a result is shown, and of the file that it is kept in: those of whoever has the command line.
fn of_screen_and_file() -> Vec<String> {
    let command = Show::augment_args(clap::Command::new("shown"));
    let longs = command.get_arguments().filter_map(clap::Arg::get_long).map(str::to_owned);
    longs.chain(["save".to_owned()]).collect()
}

/// What holds where nothing is said: the command line's own defaults.
fn nothing_said<T: Args + FromArgMatches>() -> T {
    let command = T::augment_args(clap::Command::new("nothing").no_binary_name(true));
    let found = command.try_get_matches_from([""; 0]).and_then(|found| T::from_arg_matches(&found));
    found.expect("every option may be left out")
}

macro_rules! defaults_of_the_command_line {
    ($($name:ty),*) => {$(
        impl Default for $name {
            fn default() -> Self {
                nothing_said()
            }
        }
    )*};
}

defaults_of_the_command_line!(
    UdpArgs, TcpArgs, RrArgs, Where, Datagrams, Way, Span, Sockets, Show, OutputArgs
);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ask(verb: &str, options: Value) -> Result<Asked, Refusal> {
        let Value::Object(map) = options else { panic!("{options}") };
        let host = ("host".to_owned(), json!("192.0.2.7"));
        let verb = VERBS.into_iter().find(|known| known.name() == verb).expect(verb);
        asked(verb, &std::iter::once(host).chain(map).collect::<Vec<_>>())
    }

    /// The command line that says the same.
    fn typed(words: &str) -> Asked {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        match Measure::from_words(&words).unwrap() {
            Measure::Udp(args) => args.asked().unwrap(),
            Measure::Tcp(args) => args.asked().unwrap(),
            Measure::Rr(args) => args.asked().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn data_and_command_line_ask_for_the_same() {
        for (words, options) in [
            ("udp", json!({})),
            ("tcp", json!({})),
            ("rr", json!({})),
            (
                "udp -b 1.5G -l 512 -P 2 -w 4Mi -t 3s -O 1s -i 500ms --burst 1ms --engine send --dscp EF \
                 --cpu 2,3/4,5 -R -4 --no-checksum",
                json!({"rate": "1.5G", "size": 512, "streams": 2, "window": "4Mi", "time": "3s",
                    "warmup": "1s", "interval": "500ms", "burst": "1ms", "engine": "send",
                    "dscp": "EF", "cpu": "2,3/4,5", "reverse": true, "ipv4": true,
                    "no_checksum": true}),
            ),
            ("udp -k 1k", json!({"datagrams": "1k"})),
            (
                "tcp -b 500M -l 64Ki -C bbr -M 1400 -N --rx copy --tx sendfile -n 1G --both",
                json!({"rate": "500M", "block": "64Ki", "congestion": "bbr", "mss": 1400,
                    "nodelay": true, "rx": "copy", "tx": "sendfile", "bytes": "1G", "both": true}),
            ),
            (
                "rr --udp --request 100 --response 1Ki --outstanding 4 --rate 10k",
                json!({"udp": true, "request": 100, "response": "1Ki", "outstanding": 4,
                    "rate": "10k"}),
            ),
        ] {
            let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
            let (data, typed) = (
                ask(verb, options).unwrap().request,
                typed(&format!("linerate {verb} 192.0.2.7 {rest}")).request,
            );
            assert_eq!(data.plan, typed.plan, "{words}");
            assert_eq!((data.target, data.ip), (typed.target, typed.ip), "{words}");
            assert_eq!(data.size_from_mtu, typed.size_from_mtu, "{words}");
        }
    }

    #[test]
    fn old_names_of_values_stay() {
        let plan = |rx: &str| ask("tcp", json!({ "rx": rx })).map(|asked| asked.request.plan);
        assert_eq!(plan("discard").unwrap(), plan("truncate").unwrap());
        assert!(plan("cut").is_err());
        let target = |key: &str| ask("udp", json!({ key: true })).unwrap().request.target;
        assert_eq!(typed("linerate udp 192.0.2.7 --discard").request.target, target("send_only"));
    }

    #[test]
    fn a_refusal_names_its_option() {
        for (verb, options, named) in [
            ("tcp", json!({"window": "much"}), "--window"),
            ("tcp", json!({"streams": -1}), "--streams"),
            ("tcp", json!({"streams": 500}), "--streams"),
            ("tcp", json!({"reverse": 1}), "--reverse"),
            ("tcp", json!({"rx": "aside"}), "--rx"),
            ("tcp", json!({"congestion": "a b"}), "--congestion"),
            ("udp", json!({"engine": "steam"}), "--engine"),
            ("udp", json!({"reverse": true, "both": true}), "--both"),
            ("udp", json!({"time": "1s", "bytes": "1M"}), "--bytes"),
            ("udp", json!({"time": "200000s"}), "--time"),
            ("udp", json!({"rate": "1"}), "--rate"),
            ("udp", json!({"port": 0}), "--port"),
            ("udp", json!({"ipv4": true, "ipv6": true}), "--ipv6"),
            ("rr", json!({"outstanding": 0}), "--outstanding"),
            ("udp", json!({"watch": true}), "--watch"),
            ("udp", json!({"web": "8080"}), "--web"),
            ("tcp", json!({"json_lines": true}), "--json-lines"),
            ("tcp", json!({"save": "x.json"}), "--save"),
        ] {
            let refused = ask(verb, options.clone()).expect_err(&options.to_string());
            assert!(refused.options.iter().any(|o| o == named), "{options}: {refused:?}");
        }
        let unknown = ask("tcp", json!({"wnidow": "4Mi"})).unwrap_err();
        assert_eq!(unknown.error.why, "there is no such option");
    }
}
