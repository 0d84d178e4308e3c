//! A client of the HTTP endpoint, for the demo and the tests.

use std::time::Duration;

use axum::body::{self, Body};
use axum::http::{Request, StatusCode, header};
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

use crate::error::Error;
use crate::handlers::Checkout;
use crate::http::Health;

/// The longest that an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client of one service.
#[derive(Debug, Clone)]
pub struct Client {
    http: Http<HttpConnector, Body>,
    url: String,
}

impl Client {
    /// A client of the service at `url`, such as `http://127.0.0.1:8080`.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self {
            http: Http::builder(TokioExecutor::new()).build_http(),
            url: url.to_owned(),
        }
    }

    /// Posts a checkout.
    ///
    /// # Errors
    ///
    /// It was not accepted, or there was no answer.
    pub async fn checkout(&self, checkout: Checkout) -> Result<(), Error> {
        let request = Request::post(format!("{}/checkout", self.url))
            .header(header::CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(&checkout)?.into())?;
        match self.send(request).await? {
            (StatusCode::ACCEPTED, _) => Ok(()),
            (status, text) => Err(format!("{status}: {text}").into()),
        }
    }

    /// Asks for the service's health.
    ///
    /// # Errors
    ///
    /// There was no answer.
    pub async fn health(&self) -> Result<Health, Error> {
        let request = Request::get(format!("{}/health", self.url)).body(Body::empty())?;
        let (_, text) = self.send(request).await?;
        Ok(serde_json::from_str(&text)?)
    }

    async fn send(&self, request: Request<Body>) -> Result<(StatusCode, String), Error> {
        let answer = timeout(PATIENCE, async {
            let response = self.http.request(request).await?;
            let status = response.status();
            let body = body::to_bytes(Body::new(response.into_body()), usize::MAX).await?;
            Ok::<_, Error>((status, String::from_utf8(body.into())?))
        });
        answer.await?
    }
}
