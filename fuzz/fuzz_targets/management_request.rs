#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| servicebus_fuzz::management_request(data));
