//! OpenAI audio transcription.

use std::fmt::Write as _;

use super::form::Form;
use super::{Call, Dialect, Route};
use crate::JSON;
use crate::reply::{Chunk, Reply};
use crate::request::{Ask, BadRequest};

/// `/v1/audio/transcriptions`.
#[derive(Debug)]
pub(super) struct AudioTranscription;

impl Dialect for AudioTranscription {
    fn routes(&self) -> &'static [Route] {
        const { &[Route::generate("/v1/audio/transcriptions")] }
    }

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest> {
        let form = Form::read(call)?;
        let file = form.file("file")?;
        let magics = [&b"RIFF"[..], b"fLaC", b"OggS", b"ID3", b"\xff"];
        if !magics.iter().any(|magic| file.starts_with(magic)) {
            let message = "The file could not be decoded as audio.".to_owned();
            return Err(BadRequest { message, param: Some("file") });
        }
        let format = form.text("response_format");
        Ok(Ask {
            model: form.text("model"),
            stream: form.is_set("stream"),
            plain: matches!(format.as_deref(), Some("text" | "srt" | "vtt")),
            ..Ask::from_prompts(Vec::new())
        })
    }

    fn whole(&self, reply: &Reply) -> Vec<u8> {
        if reply.plain {
            return reply.plain_text().into_bytes();
        }
        let mut out = String::from(r#"{"text":""#);
        reply.append_text(&mut out, 0, 0, reply.tokens);
        out.push('"');
        append_usage(reply, &mut out);
        out.push('}');
        out.into_bytes()
    }

    fn media_type(&self, reply: &Reply) -> &'static str {
        if reply.plain { "text/plain; charset=utf-8" } else { JSON }
    }

    fn chunk(&self, reply: &Reply, chunk: &Chunk, out: &mut String) {
        out.push_str(r#"data: {"type":"transcript.text.delta","delta":""#);
        reply.append_text(out, chunk.choice, chunk.first, chunk.count);
        out.push_str(r#""}"#);
    }

    fn closings(&self, _reply: &Reply) -> u64 {
        1
    }

    fn close(&self, reply: &Reply, _at: u64, out: &mut String) {
        out.push_str(r#"data: {"type":"transcript.text.done","text":""#);
        if !reply.is_empty() {
            reply.append_text(out, 0, 0, reply.tokens);
        }
        out.push('"');
        append_usage(reply, out);
        out.push('}');
    }
}

fn append_usage(reply: &Reply, out: &mut String) {
    if let Some(input) = reply.usage {
        let output = if reply.is_empty() { 0 } else { reply.reported(reply.tokens) };
        let _ = write!(
            out,
            r#","usage":{{"type":"tokens","input_tokens":{input},"output_tokens":{output},"total_tokens":{}}}"#,
            input + output
        );
    }
}
