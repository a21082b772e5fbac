#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linerate_testkit::fuzz::campaign_plan(data));
