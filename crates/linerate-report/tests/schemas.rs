//! `assets/schemas.json`, of which `linerate schema` prints, is made of the types; here it is held to them.

use linerate_model::campaign::CampaignStatus;
use linerate_model::doctor::DoctorDocument;
use linerate_model::fleet::{FleetDocument, FleetNotice};
use linerate_model::fleet_agents::FleetHosts;
use linerate_model::fleet_doctor::FleetDoctor;
use linerate_model::fleet_events::FleetEvents;
use linerate_model::key_list::KeyList;
use linerate_model::lines::{
    CampaignLine, ExportedRun, NoDocument, RunLine, SearchLine, SweepLine, TuneLine, WatchLine,
};
use linerate_model::profile::ProfileDocument;
use linerate_model::record::RunRecord;
use linerate_model::search::SearchDocument;
use linerate_model::served::ServerLine;
use linerate_model::sweep::SweepDocument;
use linerate_model::tune::TuneDocument;
use linerate_report::compare::view::View;
use linerate_report::schema;
use schemars::schema_for;
use serde_json::{Map, Value, json};

/// The schema of each document by the name that the verb knows it by.
fn made() -> Map<String, Value> {
    let schemas = [
        ("campaign", schema_for!(CampaignLine<'_>)),
        ("campaign-export", schema_for!(ExportedRun)),
        ("campaign-status", schema_for!(CampaignStatus)),
        ("compare", schema_for!(View)),
        ("doctor", schema_for!(DoctorDocument)),
        ("error", schema_for!(NoDocument<'_>)),
        ("fleet", schema_for!(FleetDocument)),
        ("fleet-change", schema_for!(FleetNotice)),
        ("fleet-doctor", schema_for!(FleetDoctor)),
        ("fleet-events", schema_for!(FleetEvents)),
        ("fleet-hosts", schema_for!(FleetHosts)),
        ("keys", schema_for!(KeyList)),
        ("profile", schema_for!(ProfileDocument)),
        ("run", schema_for!(RunRecord)),
        ("run-line", schema_for!(RunLine<'_>)),
        ("search", schema_for!(SearchDocument)),
        ("search-line", schema_for!(SearchLine<'_>)),
        ("serve", schema_for!(ServerLine)),
        ("sweep", schema_for!(SweepDocument)),
        ("sweep-line", schema_for!(SweepLine<'_>)),
        ("tune", schema_for!(TuneDocument)),
        ("tune-line", schema_for!(TuneLine<'_>)),
        ("watch-line", schema_for!(WatchLine<'_>)),
    ];
    schemas.into_iter().map(|(name, schema)| (name.to_owned(), schema.to_value())).collect()
}

/// The file: a line for each definition, which stands once, and for each document, which has null in its place. What
/// another type of the same name defines otherwise stays in its document.
fn file(mut documents: Map<String, Value>) -> String {
    let mut shared = Map::new();
    for definitions in documents.values_mut().filter_map(|document| document.get_mut("$defs")) {
        for (name, definition) in definitions.as_object_mut().expect("an object") {
            if shared.entry(name.clone()).or_insert_with(|| definition.clone()) == definition {
                *definition = Value::Null;
            }
        }
    }
    let lines = |all: &Map<String, Value>| {
        let each = all.iter().map(|(name, value)| format!("{}:{value}", json!(name)));
        each.collect::<Vec<_>>().join(",\n")
    };
    format!("{{\"$defs\":{{\n{}\n}},\n{}\n}}\n", lines(&shared), lines(&documents))
}

#[test]
fn the_kept_schemas_are_those_of_the_types() {
    let made = made();
    let wanted = file(made.clone());
    if std::env::var_os("LINERATE_RENEW").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/schemas.json");
        std::fs::write(path, &wanted).unwrap();
        return;
    }
    assert!(
        include_str!("../assets/schemas.json") == wanted,
        "assets/schemas.json is not of these types; LINERATE_RENEW=1 cargo test -p linerate-report --test schemas writes it"
    );
    for (name, schema) in made {
        assert!(schema::of(&name) == Some(schema), "{name} is not put together as it was made");
    }
    assert_eq!(schema::of("none"), None);
}
