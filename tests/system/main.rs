//! The whole system: the real binary, and the services over HTTP.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod access;
mod browser;
mod cli;
mod clock;
mod commands;
mod config;
mod cost;
mod crash;
mod dashboard;
mod demo;
mod doctor;
mod documents;
mod exits;
mod following;
mod gates;
mod import;
mod lake;
mod mlflow;
mod moving;
mod news;
mod openapi;
mod opened;
mod operate;
mod pressure;
mod reader;
mod releases;
mod report;
mod roles;
mod same_on_both;
mod service;
mod sql;
mod support;
mod telemetry;
mod trial;
mod weather;
