//! Downloads images that a dataset refers to by URL, for endpoints that accept only inline
//! images.
//!
//! Each is downloaded once before the run, without any of the run's headers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use reqwest::Client;
use tokio::runtime;
use url::Url;

use base::redact::{self, Secret, ShownUrl};
use client::transport::Connections;
use dataset::{Dataset, MAX_FILE_BYTES, MAX_TOTAL_BYTES, Media, MediaContent, MediaKinds};

/// Timeout of a download.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Replaces the image URLs in `dataset` with the images.
pub(super) fn images(dataset: &mut Dataset, connections: &Connections) -> anyhow::Result<()> {
    let turns = dataset.conversations.iter_mut().flat_map(|found| &mut found.turns);
    let named: Vec<&mut Media> = turns.flat_map(|turn| &mut turn.media).filter(is_url).collect();
    if named.is_empty() {
        return Ok(());
    }
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(download(named, connections));
    // A DNS lookup cannot be cancelled.
    runtime.shutdown_background();
    outcome
}

fn is_url(media: &&mut Media) -> bool {
    let is_url = matches!(media.content, MediaContent::Url(_));
    media.kind == MediaKinds::IMAGE && is_url && !media.is_cached()
}

async fn download(named: Vec<&mut Media>, connections: &Connections) -> anyhow::Result<()> {
    let mut known: HashMap<Arc<str>, Media> = HashMap::new();
    let mut total = 0;
    for media in named {
        let MediaContent::Url(text) = &media.content else { continue };
        let text = Arc::clone(text);
        if let Some(found) = known.get(&text) {
            *media = found.clone();
            continue;
        }
        let shown = redact::printable(&ShownUrl::new(&text));
        let context = || format!("cannot download the image {shown}; use a file instead");
        let url = Secret::new(Url::parse(&text).with_context(context)?);
        let client = connections.plain_client([&url])?.timeout(TIMEOUT).build()?;
        let bytes = get(&client, &url).await.with_context(context)?;
        total += bytes.len() as u64;
        if total > MAX_TOTAL_BYTES {
            bail!("the dataset's images exceed {} GiB", MAX_TOTAL_BYTES >> 30);
        }
        let inline = Media::image(bytes).map_err(anyhow::Error::msg);
        *media = inline.with_context(context)?;
        known.insert(text, media.clone());
    }
    Ok(())
}

async fn get(client: &Client, url: &Secret<Url>) -> anyhow::Result<Bytes> {
    let mut response =
        client.get(url.expose().clone()).send().await.map_err(reqwest::Error::without_url)?;
    let status = response.status();
    if !status.is_success() {
        bail!("its server returned status {status}");
    }
    let mut bytes = BytesMut::new();
    while let Some(piece) = response.chunk().await.map_err(reqwest::Error::without_url)? {
        if (bytes.len() + piece.len()) as u64 > MAX_FILE_BYTES {
            bail!("it exceeds {} MiB", MAX_FILE_BYTES >> 20);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.freeze())
}
