//! `serve --web` and `--metrics`: what a server shows in a browser, and to Prometheus.

use std::sync::Arc;

use clap::Args;
use linerate_ask::value::WebAddress;
use linerate_model::record::ErrorRecord;
use linerate_model::served::ServerLine;
use linerate_runner::Cidr;
use linerate_runner::server::{Counts, Event, Options};
use linerate_watch::web::events;
use linerate_watch::web::page::Html;
use linerate_wire::http;

use crate::metrics::Metrics;
use crate::web::{Answer, Web};

/// Who scrapes it must know the port beforehand.
const METRICS_PORT: u16 = 15_201;

/// Where they are shown.
#[derive(Debug, Clone, Args)]
pub struct PagesArgs {
    /// Show tests that run and ran, and who was refused and why, as a page in a browser, and print the page's address.
    /// Only this host reaches it unless an ADDRESS is given: 8080, 192.0.2.1 or 192.0.2.1:8080.
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = WebAddress::DEFAULT,
        help_heading = "Output"
    )]
    pub web: Option<WebAddress>,
    /// Answer `GET /metrics` there in Prometheus' text format: tests, bytes, datagrams and refusals, counted since the
    /// server's start. Only this host reaches it, at port 15201, unless an ADDRESS is given, as for --web.
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "127.0.0.1",
        help_heading = "Output"
    )]
    pub metrics: Option<WebAddress<METRICS_PORT>>,
}

/// Those that were asked for.
pub struct Pages {
    web: Option<Web>,
    scraped: Option<Web>,
    metrics: Option<Arc<Metrics>>,
}

impl Pages {
    /// Takes their ports; whoever is in `networks` may ask. What happens is counted from now on.
    pub fn open(
        args: &PagesArgs,
        networks: &[Cidr],
        options: &mut Options,
    ) -> Result<Self, ErrorRecord> {
        let web = args.web.map(|at| Web::bind(at, &Html::of_server())).transpose()?;
        let metrics = args.metrics.map(|_| Metrics::new()).transpose()?.map(Arc::new);
        let mut scraped = None;
        if let Some((at, metrics)) = args.metrics.zip(metrics.clone()) {
            let counts = Arc::clone(&metrics);
            options.counts = Some(Counts::new(move |event| counts.take(event)));
            let site = move |path: &str| -> Answer {
                let answer = match path {
                    "/metrics" => http::metrics(&metrics.text()),
                    _ => http::NOT_FOUND.to_owned(),
                };
                Box::pin(std::future::ready(answer))
            };
            scraped = Some(Web::site(at.0, ("metrics", "--metrics", "metrics"), Box::new(site))?);
        }
        let mut pages = Self { web, scraped, metrics };
        pages.all().for_each(|page| page.allow(networks));
        Ok(pages)
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Web> {
        self.web.iter_mut().chain(&mut self.scraped)
    }

    /// Where each is.
    pub fn words(&mut self) -> Vec<String> {
        self.all().map(|page| page.words()).collect()
    }

    /// Answers from now on.
    pub fn begin(&mut self) -> Result<(), ErrorRecord> {
        self.all().try_for_each(Web::begin)
    }

    /// Who shows what happens in a browser; waits for nobody.
    pub fn shown(&self) -> Option<impl Fn(&ServerLine) + Send + use<>> {
        let feed = self.web.as_ref().map(Web::feed)?;
        Some(move |event: &ServerLine| feed.publish(events::server(event)))
    }

    /// Counts events that the log left out: the log alone knows of them.
    pub fn left_out(&self) -> impl Fn(&Event) + Send + use<> {
        let metrics = self.metrics.clone();
        move |event| {
            if let (Event::LogDropped { .. }, Some(metrics)) = (event, &metrics) {
                metrics.take(event);
            }
        }
    }
}
