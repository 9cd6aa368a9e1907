//! Orders that never change.
//!
//! The digests were computed by a second implementation in another language, written from the documentation and without
//! looking at speed: it finds out where a class's stream stands by walking all batches before.
//! A change here changes the order of every run that is resumed: never regenerate them.

use planfetch_plan::{
    BalancedSubsamplingPlanProvider, BucketPlanProvider, ConcatPlanProvider, CurriculumPlanProvider, MixtureMode,
    MixturePlanProvider, MixtureSource, Pacing, PlanProvider, RepeatPlanProvider, SequentialPlanProvider,
    ShuffleOncePerEpochPlanProvider, StreamingStratifiedBatchPlanProvider, SubsetPlanProvider, WeightedPlanProvider,
};

#[track_caller]
fn assert_order(provider: &dyn PlanProvider, epoch: u64, digest: &str) {
    assert_eq!(provider.plan(epoch).expect("valid settings").digest().to_string(), digest);
}

fn shuffle(n: u64, batch_size: usize, seed: u64) -> ShuffleOncePerEpochPlanProvider {
    ShuffleOncePerEpochPlanProvider::new(n, batch_size, seed).expect("valid settings")
}

/// Labels of 1,003 samples in 12 classes of different sizes, the last of them empty.
fn labels() -> Vec<u32> {
    (0..1_003).map(|sample| (sample * sample * 7 + sample / 3) % 11).collect()
}

/// 500 weights, of which some are 0.
fn weights() -> Vec<f64> {
    (0..500).map(|sample| f64::from(sample * 37 % 101) / 8.0).collect()
}

#[test]
fn the_shuffle_and_the_order_of_the_index() {
    let shuffle = shuffle(10_000, 64, 42);
    assert_order(&shuffle, 0, "bd9c284d45bf68d052aaaf0fae0bbad5f1c4c0ebe4eba0cfb96e697a52a5eb68");
    assert_order(&shuffle, 7, "899824860a62c514e923940d6dfa3a1c4624c0c9af43fc2b12b5efaea8a19924");
    let sequential = SequentialPlanProvider::new(10_000, 64).expect("valid settings");
    assert_order(&sequential, 0, "6f91a516fcc4ed82b3ad5d21e308acc779a7afc31262c46e2d39ba181df2adc7");
}

#[test]
fn the_lazy_shuffle_by_table_and_by_network() {
    let lazy = |n| shuffle(n, 64, 42).with_lazy(true);
    assert_order(&lazy(10_000), 3, "5c4ed434f3cd46699057a683b6724d5b064d47328c77a4c0070a2c7f64087a4d");
    assert_order(&lazy(100_003), 3, "de94d3668e335d513e1218a1e24ee51adda68d6c0c9ee2c912c9adc816f75f29");
}

#[cfg(target_pointer_width = "64")]
#[test]
fn the_lazy_shuffle_beyond_32_bits() {
    let wide = shuffle(5_000_000_000, 64, 42).with_lazy(true).plan(3).expect("valid settings");
    let at = |position| wide.range_flat(position, position + 1).and_then(|ids| ids.get(0)).map(|id| id.0);
    assert_eq!(
        [0, 1, 2_500_000_000, 4_999_999_999].map(at),
        [Some(2_034_501_757), Some(2_008_497_501), Some(855_515_361), Some(911_604_827)]
    );
}

#[test]
fn stratified_and_balanced_batches_and_buckets() {
    let stratified = StreamingStratifiedBatchPlanProvider::new(&labels(), 12, 64, 42).expect("valid settings");
    assert_order(&stratified, 0, "a01a749d72cc7ccf8d91e4259e82157a797c4c690826be15d31140391a7338aa");
    assert_order(&stratified, 7, "8879afce1d31a06b998cb77cae8e95741a2e651012753621c05abb1b2829f028");
    let streaming = stratified.with_epoch_samples(700).expect("valid settings");
    assert_order(&streaming, 0, "60e8b5d3f75dbd3a49ad761039c6ea89a606495bbb10902a1fb34ba66841f655");
    assert_order(&streaming, 7, "296b485160df126cfc7c5bdbd7a40e3e1343d6eea341da14b23cdde33f110c18");
    // A class that is too large for a table.
    let large: Vec<u32> = (0..72_000).map(|sample| u32::from(sample % 75 == 0)).collect();
    let large = StreamingStratifiedBatchPlanProvider::new(&large, 2, 256, 42).expect("valid settings");
    assert_order(&large, 1, "944a82e2cf0ad536e78644715cd605c4d3049eed8481307f897ab719ff200973");
    let balanced = BalancedSubsamplingPlanProvider::new(&labels(), 12, 3, 42).expect("valid settings");
    assert_order(&balanced, 2, "3c452702c6b5b6f9e5b45f1ea99c21c7e443a0ab0eb1453e6a6cba8048f6eb06");
    let bucket = BucketPlanProvider::new(&labels(), 12, 32, 42).expect("valid settings");
    assert_order(&bucket, 1, "9a4c2f7e442e9632f3ff6d2830bc0beddb55d5e9191c172670ab09c0c8ce5d61");
}

#[test]
fn draws_by_weight() {
    let weighted = WeightedPlanProvider::new(&weights(), 64, 42).expect("valid settings");
    let many = weighted.clone().with_epoch_samples(2_000).expect("valid settings");
    assert_order(&many, 1, "261e417b0c1c17bb634d2d2a2b169b242de925d35a70ca53b4d51880194f9bca");
    let once = weighted.with_replacement(false);
    assert_order(&once, 1, "11623c9f4b6c695590be824207bb52aee637fdecddb92221eaccf54f439baff1");
}

#[test]
fn mixtures() {
    let source = |size, parts, seed| MixtureSource::new(shuffle(size, 1, seed), parts);
    let sources = vec![source(300, 5, 0), source(50, 2, 1), source(120, 3, 2)];
    let exact = MixturePlanProvider::new(sources, 32, 500, 42).expect("valid settings");
    assert_order(&exact, 4, "18a12cf9b32c5e2c3fb41d69b2316ab0a56c914f7d804178a7c555c47603fd43");
    let expected = exact.with_mode(MixtureMode::InExpectation);
    assert_order(&expected, 4, "3f7991b93e757b0b27ed3aa8e2946f1953332a726cb243e0e3ba4b3f3bf54d99");
}

#[test]
fn a_curriculum() {
    let difficulty: Vec<f64> = (0..1_000).map(|sample| f64::from(sample * 7_919 % 1_009) / 4.0).collect();
    let pacing = Pacing::Linear { start: 0.25, epochs: 4 };
    let curriculum = CurriculumPlanProvider::new(&difficulty, pacing, 64, 42).expect("valid settings");
    assert_order(&curriculum, 1, "554f3127d8f37540453d95aa034e8d638ee051f2ce61709809c03dbe58da1a57");
}

#[test]
fn providers_around_others() {
    let subset = SubsetPlanProvider::new(shuffle(200, 16, 42), (0..200).map(|index| index * 2 + 1), 400);
    assert_order(
        &subset.expect("valid settings"),
        1,
        "ec188004ac5a8ee91669b30d4cb3dcdd18b13ff4bf84f2b98293d85776ac97a8",
    );
    let repeat = RepeatPlanProvider::new(shuffle(200, 16, 42), 3).expect("valid settings");
    assert_order(&repeat, 1, "5c8b712a6b6f2b89802e0a01d0775f79c08efc25dc3bf48210241da2dea0a045");
    let parts: Vec<Box<dyn PlanProvider>> = vec![Box::new(shuffle(200, 16, 1)), Box::new(shuffle(77, 16, 2))];
    let concat = ConcatPlanProvider::new(parts).expect("valid settings");
    assert_order(&concat, 1, "374b5373bfe39466695076071c540a67b81bd44256c209bafe20da3468686e69");
}

#[test]
fn every_fingerprint() {
    // A changed fingerprint refuses the cursors of all checkpoints. The first was computed by the second implementation.
    let source = |size, parts| MixtureSource::new(shuffle(size, 1, 0), parts);
    let difficulty = [3.0, 1.0];
    let providers: Vec<(Box<dyn PlanProvider>, &str)> = vec![
        (Box::new(shuffle(100, 8, 42)), "shuffle-once-per-epoch/5481c991f60e9f76f18bfcce19316f95"),
        (Box::new(shuffle(100, 8, 42).with_lazy(true)), "lazy-shuffle-once-per-epoch/51cf7b1a1f5e854589e5b8b4c7b1b0ef"),
        (Box::new(SequentialPlanProvider::new(100, 8).expect("valid")), "sequential/19be817c9c79737e6ea3a5336ee3c2e9"),
        (
            Box::new(StreamingStratifiedBatchPlanProvider::new(&labels(), 12, 64, 42).expect("valid")),
            "streaming-stratified/97b55744317c61525008c19eac9fb765",
        ),
        (
            Box::new(BalancedSubsamplingPlanProvider::new(&labels(), 12, 3, 42).expect("valid")),
            "balanced-subsampling/ce9e0c4f700c28d3c864ff9caf481610",
        ),
        (
            Box::new(WeightedPlanProvider::new(&weights(), 64, 42).expect("valid")),
            "weighted/7f4f664b2445627969bb8dce0485008b",
        ),
        (
            Box::new(MixturePlanProvider::new(vec![source(5, 2), source(9, 1)], 4, 20, 42).expect("valid")),
            "mixture/ef4394956690172b7b9ef277638565dc",
        ),
        (
            Box::new(CurriculumPlanProvider::new(&difficulty, Pacing::All, 4, 42).expect("valid")),
            "curriculum/fe593c85990aee4c40c3334cf7ac2bb4",
        ),
        (
            Box::new(BucketPlanProvider::new(&labels(), 12, 32, 42).expect("valid")),
            "bucket/79579360adaab7a061a8368d1e1dbfcd",
        ),
        (
            Box::new(SubsetPlanProvider::new(shuffle(2, 8, 42), [1, 3], 4).expect("valid")),
            "subset/5763041ab43834d917e30fa28a2eda7e",
        ),
        (
            Box::new(RepeatPlanProvider::new(shuffle(2, 8, 42), 3).expect("valid")),
            "repeat/41328b5e96acd93e856c0d412a8bddf2",
        ),
        (
            Box::new(ConcatPlanProvider::new(vec![Box::new(shuffle(2, 8, 42))]).expect("valid")),
            "concat/ed4104255e5d02012f30e65afef7c940",
        ),
    ];
    let found: Vec<String> = providers.iter().map(|(provider, _)| provider.fingerprint().to_string()).collect();
    let expected: Vec<&str> = providers.iter().map(|(_, expected)| *expected).collect();
    assert_eq!(found, expected);
}
