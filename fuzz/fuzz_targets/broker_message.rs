#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linerate_testkit::fuzz::broker_message(data));
