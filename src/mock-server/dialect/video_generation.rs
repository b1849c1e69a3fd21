//! OpenAI video generation, with the additional members of `SGLang`.

use serde_json::json;

use base::setting::Named;
use base::units::Nanos;

use super::form::Form;
use super::{Call, Dialect, LookupResult, Route};
use crate::JSON;
use crate::reply::Reply;
use crate::request::{self, Ask, BadRequest, Prompt, Text, missing};
use crate::script::{Fault, JobFault};

/// `/v1/videos`. The identifier of a job contains all its state, so that nothing is stored: when it
/// is done, how it ends, and how long it took.
#[derive(Debug)]
pub(super) struct VideoGeneration;

#[derive(serde::Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    prompt: Option<Text<'a>>,
}

/// The content of a job's identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Job {
    ready: Nanos,
    work: Nanos,
    fault: Option<JobFault>,
}

const PEAK_MEMORY_MB: f64 = 20480.0;
/// The first box of an MP4 file.
const VIDEO: &[u8] = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom";

impl Dialect for VideoGeneration {
    fn routes(&self) -> &'static [Route] {
        const {
            &[
                Route::generate("/v1/videos"),
                Route::look_up("/v1/videos/{id}/content"),
                Route::look_up("/v1/videos/{id}"),
            ]
        }
    }

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest> {
        let (model, prompt) = if call.content_type.is_some_and(|kind| kind.starts_with("multipart"))
        {
            let form = Form::read(call)?;
            (form.text("model"), form.text("prompt"))
        } else {
            let body: Body<'a> = request::json(call.body)?;
            (body.model.map(|text| text.0), body.prompt.map(|text| text.0))
        };
        let prompt = prompt.ok_or_else(|| missing("prompt"))?;
        Ok(Ask { model, ..Ask::from_prompts(vec![Prompt::Text(prompt)]) })
    }

    fn generates(&self) -> bool {
        false
    }

    fn is_job(&self) -> bool {
        true
    }

    fn whole(&self, reply: &Reply) -> Vec<u8> {
        let fault = match reply.fault {
            Some(Fault::Job(fault)) => Some(fault),
            _ => None,
        };
        let job = Job { ready: reply.ready, work: reply.work, fault };
        job.told(&job.id(reply.id), "queued").into_bytes()
    }

    fn look_up(&self, call: &Call<'_>, now: Nanos) -> Option<LookupResult> {
        let id = call.name.as_deref()?;
        let job = Job::read(id)?;
        let is_done = now >= job.ready && job.fault.is_none();
        if call.route.path.ends_with("/content") {
            return is_done.then(|| LookupResult { media_type: "video/mp4", body: VIDEO.into() });
        }
        let status = match job.fault {
            Some(JobFault::Odd) => "daydreaming",
            Some(JobFault::Failed) if now >= job.ready => "failed",
            _ if is_done => "completed",
            _ => "in_progress",
        };
        Some(LookupResult { media_type: JSON, body: job.told(id, status).into() })
    }
}

impl Job {
    fn id(self, number: u64) -> String {
        let end = self.fault.map_or("done", JobFault::name);
        format!("video_{number:016x}_{end}_{}_{}", self.ready.0, self.work.0)
    }

    fn read(id: &str) -> Option<Self> {
        let mut parts = id.strip_prefix("video_")?.split('_').skip(1);
        let end = parts.next()?;
        let fault = JobFault::named(end);
        let mut nanos = || parts.next()?.parse().ok().map(Nanos);
        Some(Self { ready: nanos()?, work: nanos()?, fault })
    }

    fn told(self, id: &str, status: &str) -> String {
        let is_done = status == "completed";
        let error = (status == "failed")
            .then(|| json!({"code": "generation_failed", "message": "The script fails this job."}));
        json!({
            "id": id,
            "object": "video",
            "status": status,
            "progress": if is_done { 100 } else { 0 },
            "error": error,
            "inference_time_s": is_done.then(|| self.work.as_seconds()),
            "peak_memory_mb": is_done.then_some(PEAK_MEMORY_MB),
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_says_all_about_a_job() {
        for fault in JobFault::NAMES.iter().map(|(_, fault)| Some(*fault)).chain([None]) {
            let job = Job { ready: Nanos(123), work: Nanos(45), fault };
            assert_eq!(Job::read(&job.id(7)), Some(job));
        }
        for wrong in ["", "video_", "video_1_done_x_1", "x_1_done_1_1"] {
            assert_eq!(Job::read(wrong), None, "{wrong}");
        }
    }
}
