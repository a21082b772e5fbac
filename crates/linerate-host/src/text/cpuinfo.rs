//! The CPU's name, /proc/cpuinfo.

/// The name of the first core's model.
///
/// `model name` on x86, `cpu model` on MIPS, `cpu` on POWER, `uarch` on RISC-V. 64-bit ARM gives
/// part numbers only, which are no name.
pub(crate) fn parse_model(text: &str) -> Option<String> {
    ["model name", "cpu model", "cpu", "uarch"].iter().find_map(|key| {
        let name = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == *key).then(|| value.trim())
        })?;
        (!name.is_empty()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        let x86 = "processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7R13: \"Milan\"\n";
        assert_eq!(parse_model(x86).as_deref(), Some("AMD EPYC 7R13: \"Milan\""));
        let power = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n";
        assert_eq!(parse_model(power).as_deref(), Some("POWER9, altivec supported"));
        let arm =
            "processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n";
        assert_eq!(parse_model(arm), None);
        assert_eq!(parse_model("model name\t:\n"), None);
    }
}
