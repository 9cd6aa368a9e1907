//! What becomes of an image.

use std::path::PathBuf;

use clap::Args;
use planfetch::prelude::*;

use crate::context::Context;
use crate::failure::Failure;

#[derive(Args, Debug)]
#[command(next_help_heading = "Images")]
pub(crate) struct ImageOptions {
    /// The side that images are resized to, in pixels [default: 224]
    #[arg(long, value_name = "PIXELS")]
    image_size: Option<usize>,
    /// A JSON file with the image settings: {"height": 224, "width": 224, "transforms": [{"RandomResizedCrop": {}}]}
    #[arg(long, value_name = "FILE", conflicts_with = "image_size")]
    settings: Option<PathBuf>,
}

impl ImageOptions {
    /// Returns the settings of the file with what the options say.
    pub(crate) fn settings(&self, context: &Context) -> Result<ImageSettings, Failure> {
        let mut settings = match &self.settings {
            Some(path) => {
                let json = std::fs::read(path).map_err(|error| format!("can't read {}: {error}", path.display()))?;
                serde_json::from_slice(&json)
                    .map_err(|error| format!("{} holds no image settings: {error}", path.display()))?
            }
            None => context.settings.image.clone(),
        };
        if let Some(size) = self.image_size {
            (settings.height, settings.width) = (size, size);
        }
        Ok(settings)
    }

    /// Returns the name of an option that was given, where one was: they mean nothing without decoding.
    pub(crate) fn given(&self) -> Option<&'static str> {
        match (self.image_size, &self.settings) {
            (Some(_), _) => Some("--image-size"),
            (None, Some(_)) => Some("--settings"),
            (None, None) => None,
        }
    }
}
