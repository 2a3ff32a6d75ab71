"""A local S3 server for tests: moto's, on a free port of this machine, with the environment that clients read."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import boto3
from moto.server import ThreadedMotoServer

BUCKET = "leaks"


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Yields the environment variables with which clients reach it; it has one bucket, BUCKET."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        environment = {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        s3_client(environment).create_bucket(Bucket=BUCKET)
        yield environment
    finally:
        server.stop()


def s3_client(environment: Mapping[str, str]):
    return boto3.client(
        "s3",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        aws_access_key_id="test",
        aws_secret_access_key="test",
        region_name="us-east-1",
    )


def keys(environment: Mapping[str, str], prefix: str = "") -> list[str]:
    """All keys of the bucket below a prefix; what ends in a slash is an empty folder mark of the client."""
    pages = s3_client(environment).get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    found = [item["Key"] for page in pages for item in page.get("Contents", [])]
    return [key for key in found if not key.endswith("/")]


def full(environment: Mapping[str, str]) -> dict[str, str]:
    """The whole environment for a child process."""
    return {**os.environ, **environment}
