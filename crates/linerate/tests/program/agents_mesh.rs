//! Eight agents in eight namespaces that measure each other: whoever loses of what they send is named, and nobody else.

use linerate_testkit::peer::LONG;
use serde_json::Value;

use crate::fleet::{document, lose};
use crate::support::agents::World;
use crate::support::{Client, Lab, linerate, wait_for};
use crate::web::Shown;

const HOSTS: [&str; 8] = ["h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8"];

/// What is said of a run that was kept.
struct Said {
    document: Value,
    text: String,
    page: String,
}

/// All pairs, each way, three times.
fn measured(world: &World, name: &str) -> Said {
    let (space, dir, keep) = (world.space(), world.path("fleet"), world.path(name));
    let hosts = HOSTS.join(",");
    let run = ["fleet", "run", "--hosts", &hosts, "--nats", &dir, "--keep", &keep, "--each-way"];
    let more = ["--times", "3", "--retries", "5", "--metric", "lost_path"];
    // Ten of 1,000 datagrams are lost. They leave 50 at a time: hosts that share two cores with other work, which seldom have
    // their turn, send most of them all the same, and the test takes little of a core.
    let test =
        ["udp", "-b", "8M", "-l", "500", "-t", "500ms", "--engine", "mmsg", "--burst", "25ms"];
    let mut run = Client::start(Some(&space), &[&run[..], &more, &test].concat());
    // It has 168 tests, and no part of it is looked at before its end.
    wait_for(5 * LONG, || !run.alive());
    let ran = run.end();
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    let shown = linerate(None, &["fleet", "results", &keep]);
    println!("{}", shown.out);
    let document = document(&linerate(None, &["fleet", "results", &keep, "--json"]));
    let pairs = document["pairs"].as_array().expect("pairs");
    let values = pairs.iter().flat_map(|pair| pair["values"].as_array().expect("values"));
    assert_eq!((pairs.len(), values.filter(|value| value.is_number()).count()), (56, 168));
    let page = Shown::start(&["fleet", "serve", &keep]).get("/TOKEN/");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    Said { document, text: shown.out, page }
}

impl Said {
    /// All that is bad by the document: a host, or both ends of a link.
    fn bad(&self) -> Vec<Vec<&str>> {
        let bad = self.document["verdict"]["bad"].as_array().expect("who is bad");
        let ends = ["host", "from", "to"];
        bad.iter().map(|bad| ends.iter().filter_map(|end| bad[*end].as_str()).collect()).collect()
    }

    /// The only line of the text that names somebody; the page has the same, and no other.
    fn line(&self) -> &str {
        let named: Vec<&str> = self.text.lines().filter(|line| line.starts_with("bad ")).collect();
        let [line] = named[..] else { panic!("{}", self.text) };
        let (_, verdict) = self.page.split_once("class=\"verdict\">").expect("a verdict");
        let (verdict, _) = verdict.split_once("</p>").expect("its end");
        assert_eq!(verdict.replace("&gt;", ">"), line);
        line
    }

    /// What the page says of cells with a frame, and of names at the edges that are marked.
    fn marked(&self) -> [Vec<String>; 2] {
        let tags = |open: &str, class: &str| -> Vec<String> {
            let tags = self.page.split(open).skip(1).filter_map(|after| after.split('>').next());
            let marked = tags.filter_map(|tag| {
                let (_, tag) = tag.split_once("class=\"")?;
                let (classes, tag) = tag.split_once("\" title=\"")?;
                classes.split(' ').any(|of| of == class).then(|| tag.replace("&gt;", ">"))
            });
            marked.collect()
        };
        [tags("<a href=\"pair-", "link"), tags("<span data-part ", "bad")]
    }
}

#[test]
#[ignore = "long"]
fn eight_agents_name_the_link_or_the_host_that_loses_and_no_other() {
    let world = World::new("mesh", || Lab::hosts(8), ("r", "10.77.1.254"));
    let Some(mut world) = world else { return };
    for (host, number) in HOSTS.iter().zip(1..) {
        world.agent(host, &format!("10.77.1.{number}"));
    }
    world.spoken(HOSTS.len());

    lose(&world.lab, "h3", &[2]);
    let said = measured(&world, "link.db");
    assert_eq!(said.bad(), [["h2", "h3"]], "{}", said.text);
    assert!(said.line().starts_with("bad link: h2 -> h3, "), "{}", said.text);
    let [links, hosts] = said.marked();
    assert!(links.len() == 1 && links[0].starts_with("bad link: h2 -> h3: "), "{links:?}");
    assert!(hosts.is_empty(), "{hosts:?}");

    // Of all that it is sent, and of all that it sends.
    lose(&world.lab, "h3", &[1, 2, 4, 5, 6, 7, 8]);
    HOSTS.iter().filter(|host| **host != "h3").for_each(|into| lose(&world.lab, into, &[3]));
    let said = measured(&world, "host.db");
    assert_eq!(said.bad(), [["h3"]], "{}", said.text);
    assert!(said.line().starts_with("bad host: h3"), "{}", said.text);
    let [links, hosts] = said.marked();
    assert!(links.is_empty(), "{links:?}");
    assert!(!hosts.is_empty() && hosts.iter().all(|host| host.starts_with("bad host: h3")));
}
