//! NIM's detection in images, which finds the same table in each.

use serde::Deserialize;

use super::{Call, Dialect, Route};
use crate::reply::Reply;
use crate::request::{self, Ask, BadRequest, Text, missing};

/// `/v1/infer`, which later versions call `/v1/page-elements` and `/v1/table-structure`.
#[derive(Debug)]
pub(super) struct ImageRetrieval;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    input: Option<Vec<Image<'a>>>,
}

#[derive(Deserialize)]
struct Image<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    url: Text<'a>,
}

impl Image<'_> {
    fn is_one(&self) -> bool {
        let formats = ["data:image/png;base64,", "data:image/jpeg;base64,"];
        self.kind.0 == "image_url" && formats.iter().any(|format| self.url.0.starts_with(format))
    }
}

impl Dialect for ImageRetrieval {
    fn routes(&self) -> &'static [Route] {
        const {
            &[
                Route::generate("/v1/infer"),
                Route::generate("/v1/page-elements"),
                Route::generate("/v1/table-structure"),
            ]
        }
    }

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest> {
        let body: Body<'a> = request::json(call.body)?;
        let images = body.input.ok_or_else(|| missing("input"))?;
        if !images.iter().all(Image::is_one) {
            let message = "Images must be PNG or JPEG data URLs.".to_owned();
            return Err(BadRequest { message, param: Some("input") });
        }
        let model = body.model.map(|text| text.0);
        Ask { model, ..Ask::from_prompts(Vec::new()) }.with_choices(images.len() as u64)
    }

    fn generates(&self) -> bool {
        false
    }

    fn whole(&self, reply: &Reply) -> Vec<u8> {
        let table = r#"{"x_min":0.05,"y_min":0.15,"x_max":0.95,"y_max":0.85,"confidence":0.94}"#;
        let entry = |at: u64| format!(r#"{{"index":{at},"bounding_boxes":{{"table":[{table}]}}}}"#);
        let entries: Vec<String> = (0..reply.choices).map(entry).collect();
        format!(r#"{{"data":[{}]}}"#, entries.join(",")).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_an_entry_for_each_image_and_nothing_else_is_one() {
        let route = const { &Route::generate("/v1/infer") };
        let read = |body: &str| {
            let body = body.as_bytes();
            let call = Call { route, name: None, content_type: None, body };
            ImageRetrieval.read(&call).map(|ask| ask.choices)
        };
        let image = r#"{"type":"image_url","url":"data:image/png;base64,A"}"#;
        assert_eq!(read(&format!(r#"{{"input":[{image},{image}]}}"#)), Ok(2));
        for wrong in ["{}", r#"{"input":[]}"#, r#"{"input":["data:image/png;base64,A"]}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let (text, linked) =
            (image.replace("image_url", "text"), image.replace("data:", "http://"));
        for wrong in [text, linked] {
            assert_eq!(
                read(&format!(r#"{{"input":[{wrong}]}}"#)).unwrap_err().param,
                Some("input")
            );
        }
    }
}
