//! The distribution's name, os-release(5).

/// `PRETTY_NAME`, without the quotes and backslashes that the shell would take away.
pub(crate) fn parse_pretty_name(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.trim_start().strip_prefix("PRETTY_NAME="))?;
    let value = value.trim();
    let unquoted = ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote))
        .unwrap_or(value);
    let mut name = String::with_capacity(unquoted.len());
    let mut characters = unquoted.chars();
    while let Some(character) = characters.next() {
        name.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        let name = |text: &str| parse_pretty_name(text);
        let debian = "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n";
        assert_eq!(name(debian).as_deref(), Some("Debian GNU/Linux 13 (trixie)"));
        assert_eq!(name("PRETTY_NAME='A'").as_deref(), Some("A"));
        assert_eq!(name("PRETTY_NAME=\"A \\\"B\\\" \\$C\"").as_deref(), Some("A \"B\" $C"));
        assert_eq!(name("PRETTY_NAME=Plain\n").as_deref(), Some("Plain"));
        assert_eq!(name("PRETTY_NAME=\"").as_deref(), Some("\""));
        assert_eq!(name("PRETTY_NAME=\"\""), None);
        assert_eq!(name("NAME=x"), None);
    }
}
