//! How object stores are asked.

use clap::Args;
use planfetch::prelude::StoreSettings;

use crate::context::Context;

#[derive(Args, Debug)]
#[command(next_help_heading = "Store")]
pub(crate) struct StoreOptions {
    /// The URL of a server that speaks the S3 protocol [default: Amazon S3, or AWS_ENDPOINT_URL]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// The region of the buckets [default: us-east-1, or AWS_REGION]
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// Ask for objects without a signature, as public buckets allow
    #[arg(long)]
    anonymous: bool,
    /// Allow an endpoint on another machine to be plain http
    #[arg(long)]
    allow_http: bool,
    /// Connections to the store that are kept open while they are idle
    #[arg(long, value_name = "N", default_value_t = 256)]
    s3_pool_connections: usize,
}

impl StoreOptions {
    /// Returns the settings of the file with what the options say.
    pub(crate) fn settings(&self, context: &Context) -> StoreSettings {
        StoreSettings {
            endpoint: self.endpoint.clone(),
            region: self.region.clone(),
            anonymous: self.anonymous,
            allow_http: self.allow_http,
            max_idle_connections: Some(self.s3_pool_connections),
            ..context.settings.store.clone()
        }
    }
}
