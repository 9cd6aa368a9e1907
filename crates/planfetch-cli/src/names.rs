//! What the library's settings are called on the command line.

/// Settings of the library, and the options that set them.
const OPTIONS: [(&str, &str); 11] = [
    ("batch_size", "--batch-size"),
    ("batches_ahead", "--batches-ahead"),
    ("batches_back", "--batches-back"),
    ("download_concurrency", "--download-threads"),
    ("height", "--image-size"),
    ("width", "--image-size"),
    ("num_workers", "--num-workers"),
    ("prefetch_factor", "--prefetch-factor"),
    ("prune_every", "--prune-every"),
    // Without an option of their own.
    ("write_concurrency", "write_concurrency (in [cache] of --config)"),
    ("in_order: false", "in_order = false (in [loader] of --config)"),
];

/// Puts the names of options in place of those of settings.
pub(crate) fn in_options(advice: &str) -> String {
    let advice = advice.replace("failed_samples lists them", "planfetch index --check finds them");
    OPTIONS.iter().fold(advice, |advice, (setting, option)| advice.replace(setting, option))
}

/// Returns the option for the setting that an error begins with.
pub(crate) fn option_of(error: &str) -> Option<&'static str> {
    OPTIONS.iter().find(|(setting, _)| error.starts_with(&format!("{setting} "))).map(|(_, option)| *option)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_options() {
        let advice = "6400 samples/s times 30 ms each: raise download_concurrency to about 200, and raise batches_ahead \
                      to 8 or more";
        assert_eq!(
            in_options(advice),
            "6400 samples/s times 30 ms each: raise --download-threads to about 200, and raise --batches-ahead to 8 or \
             more"
        );
    }

    #[test]
    fn an_error_names_the_option_that_sets_what_is_wrong() {
        assert_eq!(option_of("batch_size is 0, but must lie in 1..=9"), Some("--batch-size"));
        assert_eq!(option_of("height is 0, but must lie in 1..=65535"), Some("--image-size"));
        assert_eq!(option_of("low_watermark is 7, but must lie in 0.01..=1"), None);
    }
}
