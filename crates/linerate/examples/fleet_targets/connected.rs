//! Many agents at one broker that are at nothing, and what becomes of them when it is killed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_broker::Broker;
use linerate_fleet::message::Order;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::world::{World, rss_mib, runtime};
use crate::{Sizes, agents, ms, p99, row};

/// Agents that are asked one after the other.
const ASKED: usize = 5_000;
/// Those that are asked at the same time, where all are to answer.
const AT_ONCE: usize = 512;
/// One that is not back yet is asked again after this.
const PATIENCE: Duration = Duration::from_secs(2);
/// Whoever is there answers by then.
const LONG: Duration = Duration::from_secs(60);

/// Prints what it comes to.
pub fn measure(sizes: &Sizes) {
    let mut world = World::new("connected");
    let names: Vec<String> = (0..sizes.agents).map(|number| format!("a{number}")).collect();
    let credentials: Vec<_> = names.iter().map(|name| world.agent(name)).collect();
    let runtime = runtime();
    let count = sizes.agents;
    let operator = runtime.block_on(world.operator());

    let begun = Instant::now();
    runtime.block_on(async {
        agents::connect(credentials, Duration::ZERO).await;
        all_answer(&operator, &names).await;
    });
    let words = format!("{:.1} s", begun.elapsed().as_secs_f64());
    row(&format!("{count} agents connect, and all answer"), "15 s", &words);
    let memory = format!("{} MiB", rss_mib(world.nats.pid()));
    row(&format!("memory of the broker with {count} agents"), "600 MiB", &memory);

    let asked: Vec<Duration> = runtime.block_on(async {
        let mut all = Vec::new();
        for name in names.iter().take(ASKED) {
            let asked = Instant::now();
            operator.send_order(name, &Order::Ping, LONG).await.expect("it is there");
            all.push(asked.elapsed());
        }
        all
    });
    let what = format!("an order and its answer, {} agents of {count} in turn (p99)", asked.len());
    row(&what, "50 ms", &ms(p99(asked)));

    let killed = Instant::now();
    world.nats.again();
    runtime.block_on(all_answer(&operator, &names));
    let words = format!("{:.1} s", killed.elapsed().as_secs_f64());
    row("all answer after `kill -9` of the broker", "10 s", &words);
}

/// Waits until each has answered once.
async fn all_answer(operator: &Broker, names: &[String]) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut asking = JoinSet::new();
    for name in names {
        let (name, room, operator) = (name.clone(), Arc::clone(&room), operator.clone());
        asking.spawn(async move {
            loop {
                let place = room.acquire().await.expect("it stays open");
                if operator.send_order(&name, &Order::Ping, PATIENCE).await.is_ok() {
                    return;
                }
                drop(place);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
    }
    asking.join_all().await;
}
