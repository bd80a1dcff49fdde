//! libFuzzer's entry to the target `transport`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gristmill_fuzz_harness::run("transport", bytes));
