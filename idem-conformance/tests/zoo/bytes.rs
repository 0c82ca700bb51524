//! What a careless store makes of bytes.

use std::collections::BTreeMap;

use idem_core::{Fingerprint, RecoveryPoint, StoredRequest, StoredResponse};

use crate::defect::Defect;

/// The answer as it is kept.
pub(crate) fn response(wrong: Option<Defect>, response: &StoredResponse) -> StoredResponse {
    let mut status = response.status();
    let mut body = response.body().clone();
    let mut headers = response.headers().to_vec();
    match wrong {
        Some(Defect::StatusForgotten) => status = 200,
        Some(Defect::BodyAsText) => body = as_text(&body).into(),
        Some(Defect::BodyNullIfEmpty) if body.is_empty() => body = "null".into(),
        Some(Defect::HeadersInMap) => {
            headers = headers.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect();
        }
        Some(Defect::HeadersAsText) => {
            headers = headers.into_iter().map(|(name, value)| (name, as_text(&value).into())).collect();
        }
        _ => return response.clone(),
    }
    headers
        .into_iter()
        .fold(StoredResponse::new(status, body).expect("a valid status"), |response, (name, value)| {
            response.header(name, value)
        })
}

pub(crate) fn point_as_text(point: &RecoveryPoint) -> RecoveryPoint {
    RecoveryPoint::new(point.checkpoint(), point.name(), as_text(point.data())).expect("a valid point")
}

/// What was asked for, as it is kept.
pub(crate) fn request(wrong: Option<Defect>, request: &StoredRequest) -> StoredRequest {
    let (route, data) = (request.route(), request.data().clone());
    let kept = match wrong {
        Some(Defect::RequestAsText) => StoredRequest::new(route, as_text(&data)),
        Some(Defect::RequestWithoutRoute) => StoredRequest::new("route", data),
        _ => return request.clone(),
    };
    // Text may be longer than the bytes that it was made of.
    kept.unwrap_or_else(|_| request.clone())
}

/// The first 16 bytes of the digest.
pub(crate) fn halved(fingerprint: Fingerprint) -> Fingerprint {
    let mut bytes = fingerprint.to_bytes();
    bytes[17..].fill(0);
    Fingerprint::from_bytes(bytes)
}

fn as_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
