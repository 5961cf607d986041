"""An object store on loopback for tests: moto's S3 server, with files put into a bucket."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}


@contextmanager
def bucket(folder: Path) -> Iterator[Callable[[str], str]]:
    """Yield a function from a path in a bucket to its address.

    The files of the folder are in ``data/`` of the bucket.
    """
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1")
        name = f"bucket-{port}"  # moto's buckets are those of the process: other tests have theirs
        client.create_bucket(Bucket=name)
        for path in sorted(folder.iterdir()):
            client.put_object(Bucket=name, Key=f"data/{path.name}", Body=path.read_bytes())

        def get_address(path: str) -> str:
            return (
                f"s3://{name}/{path}?endpoint_override={host}:{port}&scheme=http&region=us-east-1"
                "&allow_bucket_creation=false"
            )

        yield get_address
        client.close()
    finally:
        server.stop()
