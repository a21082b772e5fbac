//! Two machines to try things in: `lab/run --shell`.

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Duration;

use linerate_lab::{Hardware, Lab};

const HELP: &str = "a COMMAND, b COMMAND: run it there, at most 10 min (linerate is in its path)
a reboot, a cut: boot it again, by its will or without; the same for b
host COMMAND: run it in the bridge's namespace
exit: both are gone, with all they hold";

fn main() {
    let program = std::env::args().nth(1).unwrap_or_else(|| "target/debug/linerate".to_owned());
    let lab = match Lab::prepare(Path::new("target/tmp/lab"), &[Path::new(&program)]) {
        Ok(lab) => lab,
        Err(why) => {
            eprintln!("no lab: {why}");
            std::process::exit(1);
        }
    };
    let hardware = Hardware { disk_mib: 64, ..Hardware::default() };
    let mut machines = [lab.machine("a", 1, hardware), lab.machine("b", 2, hardware)];
    for machine in &mut machines {
        println!("{} {} boot {}", machine.ipv4(), machine.ipv6(), machine.booted());
    }
    println!("{HELP}");
    let mut lines = std::io::stdin().lock().lines();
    loop {
        print!("> ");
        let _ = std::io::stdout().flush();
        let Some(Ok(line)) = lines.next() else { return };
        let (whom, command) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let machine = match whom {
            "a" => &mut machines[0],
            "b" => &mut machines[1],
            "host" => {
                println!("{}", lab.host(command));
                continue;
            }
            "exit" => return,
            _ => {
                println!("{HELP}");
                continue;
            }
        };
        match command {
            "reboot" => println!("boot {}", machine.reboot()),
            "cut" => {
                machine.power_cut();
                machine.power_on();
                println!("boot {}", machine.booted());
            }
            script => match machine.try_run(script, Duration::from_secs(600)) {
                Ok(done) => println!("{}{}(exit code {})", done.out, done.err, done.code),
                Err(why) => println!("{why:?}"),
            },
        }
    }
}
