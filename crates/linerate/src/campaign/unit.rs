//! `campaign install-unit`: a systemd unit that goes on after each boot of this machine.

use std::path::Path;
use std::process::Command;

use linerate_model::clean::shell_word;
use linerate_model::record::{ErrorKind, ErrorRecord};

use crate::output;
use linerate_drive::campaign::Read;
use linerate_model::exit::Exit;

/// A path as systemd.unit(5) wants it in a command line: quoted, `%` and `$` doubled.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{}\"", text.replace('$', "$$"))
}

fn absolute(path: &Path) -> std::path::PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The unit. What a campaign needs: the network, its store's folder, and where settings are made
/// the kernel's knobs (`/proc/sys`, `/sys`, CAP_NET_ADMIN); a reboot goes through systemctl.
pub fn unit(read: &Read, store: &Path, program: &Path) -> String {
    let (plan, store) = (absolute(&read.path), absolute(store));
    let folder = store.parent().unwrap_or(Path::new("/")).to_owned();
    let here = |host: usize| read.plan.hosts[host].address.is_none();
    let sets = read.prepared.iter().any(|p| p.changes.iter().any(|(host, _)| here(*host)));
    let knobs = if sets { "false" } else { "true" };
    let capabilities = if sets {
        "CAP_NET_ADMIN CAP_NET_RAW CAP_SYS_ADMIN CAP_SYS_NICE CAP_DAC_OVERRIDE CAP_KILL"
    } else {
        "CAP_SYS_NICE CAP_DAC_OVERRIDE CAP_KILL"
    };
    format!(
        "# Made by `linerate campaign install-unit`; it disables itself when the campaign is done.
[Unit]
Description=linerate campaign {name}
Wants=network-online.target
After=network-online.target
ConditionPathExists={store_plain}
# A boot begins the count anew; a plan with faults is not tried again.
StartLimitIntervalSec=1h
StartLimitBurst=20

[Service]
Type=exec
ExecStart={program} campaign resume {plan} --store {store}
ExecStopPost=-/bin/sh -c 'if [ \"$$EXIT_STATUS\" = 0 ] && [ \"$$SERVICE_RESULT\" = success ] && {program} campaign status {store} | grep -q \": done$$\"; then systemctl disable linerate-{name}.service; fi'
Restart=on-failure
RestartPreventExitStatus=2
RestartSec=10
TimeoutStopSec=60
KillMode=mixed
Nice=0
UMask=0077
NoNewPrivileges=true
CapabilityBoundingSet={capabilities}
ProtectSystem=strict
ReadWritePaths={folder}
StateDirectory=linerate
ProtectHome=read-only
PrivateTmp=true
ProtectKernelTunables={knobs}
ProtectKernelModules=true
ProtectKernelLogs=true
ProtectClock=true
ProtectHostname=true
ProtectControlGroups=true
RestrictNamespaces=true
RestrictRealtime=true
RestrictSUIDSGID=true
RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_UNIX
LockPersonality=true
MemoryDenyWriteExecute=true
SystemCallArchitectures=native
SystemCallFilter=@system-service

[Install]
WantedBy=multi-user.target
",
        name = read.plan.name,
        program = quoted(program),
        plan = quoted(&plan),
        store = quoted(&store),
        store_plain = store.display().to_string().replace('%', "%%"),
        folder = quoted(&folder),
    )
}

/// Writes and enables it, or prints it.
pub fn install(
    read: &Read,
    store: &Path,
    print: bool,
    dir: &Path,
    enable: bool,
) -> Result<Exit, ErrorRecord> {
    let program = std::env::current_exe().map_err(|e| {
        ErrorRecord::new(
            ErrorKind::Unable,
            "cannot find this program's own file",
            e.to_string(),
            &[],
        )
    })?;
    let text = unit(read, store, &program);
    if print {
        return output::print(text.as_bytes());
    }
    let name = format!("linerate-{}.service", read.plan.name);
    let path = dir.join(&name);
    let draft = dir.join(format!(".{name}.new"));
    let unable = |e: std::io::Error| {
        ErrorRecord::new(
            ErrorKind::Output,
            format!("cannot write {}", path.display()),
            e.to_string(),
            &["it needs root; --print shows the unit"],
        )
    };
    std::fs::write(&draft, text).and_then(|()| std::fs::rename(&draft, &path)).map_err(unable)?;
    output::print(format!("{}\n", path.display()).as_bytes())?;
    if !enable {
        return Ok(Exit::Complete);
    }
    for words in [&["daemon-reload"][..], &["enable", &name][..]] {
        let done = Command::new("systemctl").args(words).output();
        let why = match done {
            Ok(out) if out.status.success() => continue,
            Ok(out) => String::from_utf8_lossy(&out.stderr).trim().to_owned(),
            Err(e) => e.to_string(),
        };
        let what = format!("cannot enable {name}: `systemctl {}` failed", words.join(" "));
        return Err(ErrorRecord::new(
            ErrorKind::Systemd,
            what,
            why,
            &["the unit itself is written"],
        ));
    }
    let usual = store == read.path.with_extension("db");
    let word = |path: &Path| shell_word(&path.to_string_lossy());
    let place = if usual { String::new() } else { format!(" --store {}", word(store)) };
    let said = format!(
        "after each boot of this machine it goes on; begin with: linerate campaign run {}{place}\n",
        word(&read.path)
    );
    output::print(said.as_bytes())
}
