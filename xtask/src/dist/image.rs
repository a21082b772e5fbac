//! A container image with nothing in it but the static program: an OCI layout (image-spec 1.1) in an archive, made without
//! a daemon. `podman load`, `skopeo copy oci-archive:…` and recent `docker load` take it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::packages::LIKE;
use super::stage::{Stage, read};
use super::{Faults, Release, said};

/// Who runs in it: nobody of the host's users.
const USER: &str = "65534:65534";

pub fn image(
    release: &Release<'_>,
    architecture: &str,
    stage: &Stage,
    out: &Path,
) -> Result<PathBuf, Faults> {
    let layout = stage.work.join("image");
    let failed = |e: std::io::Error| vec![format!("{}: {e}", layout.display())];
    std::fs::create_dir_all(layout.join("blobs/sha256")).map_err(failed)?;
    let layer = stage.work.join("layer.tar");
    let mut tar = release.command("tar");
    tar.args(LIKE).arg("-C").arg(&stage.folder).arg("-cf").arg(&layer);
    said(tar.args(["usr/bin/linerate", "usr/share/doc/linerate"]))?;
    let unpacked = sum(&layer)?;
    said(release.command("gzip").arg("-9n").arg(&layer))?;
    let layer = blob(&layout, "application/vnd.oci.image.layer.v1.tar+gzip", &{
        read(&layer.with_extension("tar.gz"))?
    })?;
    let date = format!("@{}", release.epoch);
    let created = said(release.command("date").args(["-u", "-d", &date, "+%Y-%m-%dT%H:%M:%SZ"]))?;
    let notes = json!({
        "org.opencontainers.image.title": "linerate",
        "org.opencontainers.image.version": release.version,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        "org.opencontainers.image.created": created,
    });
    let config = json!({
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": USER,
            "ExposedPorts": { "5201/tcp": {}, "5201/udp": {} },
            "Entrypoint": ["/usr/bin/linerate"],
            "Cmd": ["serve"],
            "Labels": notes,
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{unpacked}")] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    });
    let config = blob(&layout, "application/vnd.oci.image.config.v1+json", &bytes(&config))?;
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": kind,
        "config": config,
        "layers": [layer],
        "annotations": notes,
    });
    let mut manifest = blob(&layout, kind, &bytes(&manifest))?;
    manifest["platform"] = json!({ "architecture": architecture, "os": "linux" });
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": release.version });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    });
    std::fs::write(layout.join("index.json"), bytes(&index)).map_err(failed)?;
    let version = bytes(&json!({ "imageLayoutVersion": "1.0.0" }));
    std::fs::write(layout.join("oci-layout"), version).map_err(failed)?;
    let made = out.join(format!("{}.oci.tar", release.name()));
    let mut tar = release.command("tar");
    tar.args(LIKE).arg(format!("--mtime=@{}", release.epoch)).arg("--mode=u=rwX,go=rX");
    tar.arg("-C").arg(&layout).arg("-cf").arg(&made).args(["blobs", "index.json", "oci-layout"]);
    said(&mut tar)?;
    Ok(made)
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Keeps a blob under its sum; says how it is found.
fn blob(layout: &Path, kind: &str, content: &[u8]) -> Result<Value, Faults> {
    let failed = |e: std::io::Error| vec![format!("{}: {e}", layout.display())];
    let blobs = layout.join("blobs/sha256");
    let coming = blobs.join("coming");
    std::fs::write(&coming, content).map_err(failed)?;
    let sum = sum(&coming)?;
    std::fs::rename(&coming, blobs.join(&sum)).map_err(failed)?;
    Ok(json!({ "mediaType": kind, "digest": format!("sha256:{sum}"), "size": content.len() }))
}

fn sum(path: &Path) -> Result<String, Faults> {
    let said = said(Command::new("sha256sum").arg(path))?;
    Ok(said.split(' ').next().unwrap_or_default().to_owned())
}
