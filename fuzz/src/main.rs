//! The fuzzer: libFuzzer calls the target that `ALMANAC_FUZZ_TARGET` names. `fuzz/run` builds and starts it.
#![no_main]

libfuzzer_sys::fuzz_target!(init: fuzz::begin(), |input: &[u8]| fuzz::take(input));
