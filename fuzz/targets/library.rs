//! libFuzzer's entry to the target `library`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gristmill_fuzz_harness::run("library", bytes));
