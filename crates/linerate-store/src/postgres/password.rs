//! Where a password is looked for that the address does not have: `PGPASSWORD`, then the file that PostgreSQL's own
//! programs read (<https://www.postgresql.org/docs/15/libpq-pgpass.html>).

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use postgres::Config;
use postgres::config::Host;

/// The password for a connection; none where nobody says one.
pub(super) fn password(config: &Config) -> Option<String> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    set("PGPASSWORD").or_else(|| {
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".pgpass"));
        let file = std::env::var_os("PGPASSFILE").map(PathBuf::from).or_else(home)?;
        let user = config.get_user().map(str::to_owned).or_else(|| set("USER"))?;
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(name)) => name,
            _ => "localhost",
        };
        let port = config.get_ports().first().copied().unwrap_or(5_432).to_string();
        let wanted = [host, &port, config.get_dbname().unwrap_or(&user), &user];
        found(&of_owner_alone(&file)?, wanted)
    })
}

/// A file that others can read holds no secret: it is passed over, as PostgreSQL does.
fn of_owner_alone(file: &Path) -> Option<String> {
    let mode = std::fs::metadata(file).ok()?.permissions().mode();
    (mode & 0o077 == 0).then(|| std::fs::read_to_string(file).ok()).flatten()
}

/// The password of the first line whose host, port, database and user are these, or `*`.
fn found(text: &str, wanted: [&str; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut fields = fields(line);
        let password = fields.split_off(fields.len().min(wanted.len())).into_iter().next()?;
        let fits = fields.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
        (fits && fields.len() == wanted.len()).then_some(password)
    })
}

/// What stands between colons; after `\` any character is itself.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut line = line.chars();
    while let Some(c) = line.next() {
        match c {
            ':' => fields.push(String::new()),
            c => {
                let c = if c == '\\' { line.next().unwrap_or(c) } else { c };
                if let Some(field) = fields.last_mut() {
                    field.push(c);
                }
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let text = "# h:5432:d:u:comment\nh:5432:other:u:wrong\nh:1:d\n*:5432:d:u\\:x:pa\\\\ss\\:word\nh:*:*:*:last\n";
        let of = |wanted| found(text, wanted);
        assert_eq!(of(["h", "5432", "d", "u:x"]).as_deref(), Some("pa\\ss:word"));
        assert_eq!(of(["h", "1", "x", "y"]).as_deref(), Some("last"));
        assert_eq!(of(["h", "5432", "other", "u"]).as_deref(), Some("wrong"));
        assert_eq!(of(["g", "5432", "d", "u"]), None);
    }

    #[test]
    fn a_file_that_others_can_read_is_passed_over() {
        let file = std::env::temp_dir().join(format!("linerate-pgpass-{}", std::process::id()));
        std::fs::write(&file, "x").unwrap();
        for (mode, read) in [(0o644, None), (0o600, Some("x"))] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(of_owner_alone(&file).as_deref(), read);
        }
        std::fs::remove_file(&file).unwrap();
    }
}
