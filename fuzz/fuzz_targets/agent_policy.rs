#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linerate_testkit::fuzz::agent_policy(data));
