//! OpenAI image edits.

use super::form::Form;
use super::{Call, Dialect, Route, image_generation};
use crate::reply::{Chunk, Reply};
use crate::request::{Ask, BadRequest, Prompt, missing};

/// `/v1/images/edits`. Responses are those of image generation.
#[derive(Debug)]
pub(super) struct ImageEdit;

impl Dialect for ImageEdit {
    fn routes(&self) -> &'static [Route] {
        const { &[Route::generate("/v1/images/edits")] }
    }

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest> {
        let form = Form::read(call)?;
        let prompt = form.text("prompt").ok_or_else(|| missing("prompt"))?;
        if form.text("url").is_none() {
            let file = form.file("image").or_else(|_| form.file("image[]"));
            let is_image = |file: &[u8]| {
                [&b"\x89PNG"[..], b"\xff\xd8\xff", b"RIFF"]
                    .iter()
                    .any(|magic| file.starts_with(magic))
            };
            if !is_image(file.map_err(|_| missing("image"))?) {
                let message = "The file could not be decoded as an image.".to_owned();
                return Err(BadRequest { message, param: Some("image") });
            }
        }
        let images = form.text("n").and_then(|n| n.parse().ok()).unwrap_or(1);
        Ask {
            model: form.text("model"),
            stream: form.is_set("stream"),
            ..Ask::from_prompts(vec![Prompt::Text(prompt)])
        }
        .with_choices(images)
    }

    fn generates(&self) -> bool {
        false
    }

    fn whole(&self, reply: &Reply) -> Vec<u8> {
        image_generation::whole(reply)
    }

    fn chunk(&self, _reply: &Reply, chunk: &Chunk, out: &mut String) {
        image_generation::partial("image_edit", chunk, out);
    }

    fn closings(&self, _reply: &Reply) -> u64 {
        1
    }

    fn close(&self, reply: &Reply, _at: u64, out: &mut String) {
        image_generation::completed("image_edit", reply, out);
    }
}
