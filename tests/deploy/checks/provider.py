"""The schema of the AWS provider, served to Terraform as a provider that can do nothing else.

Terraform then validates configurations against it, and plans and applies them in `terraform test` with `mock_provider`,
which asks a provider for its schema and makes up the rest. The schema is `../schema/aws.json`. What the real provider checks
beyond it (words that an argument takes, arguments that exclude each other) is not known here.

It speaks version 6 of the protocol of Terraform's providers (tfplugin6.proto), of which the few messages needed are
written by hand: fields of numbers and of bytes.
"""

import concurrent.futures
import json
import os
import pathlib

import grpc

SCHEMA = pathlib.Path(__file__).resolve().parent.parent / "schema" / "aws.json"
ADDRESS = "registry.terraform.io/hashicorp/aws"
MAX_MESSAGE_BYTES = 64 << 20
SINGLE, LIST, SET = 1, 2, 3
# Arguments that every resource has, and that the provider fills in.
FILLED_IN = ("id", "region", "tags_all")


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value) if value else b""


def text(field, value):
    data = value if isinstance(value, bytes) else value.encode()
    return varint(field << 3 | 2) + varint(len(data)) + data


def type_of(name):
    """A type such as list(string), as the protocol writes it: JSON."""
    if name == "any":
        return "dynamic"
    kind, _, element = name.rstrip(")").partition("(")
    return [kind, type_of(element)] if element else kind


def attribute(name, type_name, *, required=False, optional=False, computed=False):
    flags = number(4, required) + number(5, optional) + number(6, computed)
    return text(2, text(1, name) + text(2, json.dumps(type_of(type_name))) + flags)


def block(known, *, is_data=False):
    """A block. What a data source is not asked by, it tells; of resources, aws.json does not know which arguments AWS fills in."""
    out = b""
    for name, argument in known["arguments"].items():
        is_required = argument["required"]
        is_computed = is_data or argument.get("computed", False) or name in FILLED_IN
        out += attribute(
            name,
            argument["type"],
            required=is_required,
            optional=not is_required,
            computed=is_computed and not is_required,
        )
    for name, type_name in known.get("attributes", {}).items():
        out += attribute(name, type_name, computed=True)
    for name, inner in known["blocks"].items():
        nesting = {"single": SINGLE, "list": LIST, "set": SET}[inner["nesting"]]
        bounds = b"" if nesting == SINGLE else number(4, inner["required"]) + number(5, inner["single"])
        out += text(3, text(1, name) + text(2, block(inner)) + number(3, nesting) + bounds)
    return out


def provider_block():
    """What the configurations here tell the provider."""
    tags = {"arguments": {"tags": {"type": "map(string)", "required": False}}, "blocks": {}}
    default_tags = {**tags, "nesting": "list", "single": True, "required": False}
    region = {"type": "string", "required": False}
    return block({"arguments": {"region": region}, "blocks": {"default_tags": default_tags}})


def schemas():
    """The answer to GetProviderSchema."""
    known = json.loads(SCHEMA.read_text())
    out = text(1, text(2, provider_block()))
    for field, kind in [(2, "resource"), (3, "data")]:
        for name, one in known[kind].items():
            out += text(field, text(1, name) + text(2, text(2, block(one, is_data=kind == "data"))))
    return out


class Provider(grpc.GenericRpcHandler):
    """Answers every call: with the schema, or that there is nothing to say."""

    def __init__(self):
        self.schemas = schemas()

    def service(self, details):
        method = details.method.rsplit("/", 1)[1]
        answer = self.schemas if method in ("GetProviderSchema", "GetSchema") else b""
        known = ("GetProviderSchema", "ValidateProviderConfig", "ValidateResourceConfig", "ValidateDataResourceConfig")
        if method not in known:
            return None
        return grpc.unary_unary_rpc_method_handler(lambda _request, _context: answer)


def start():
    """Starts it; the server, to be kept, and the environment in which Terraform finds it."""
    options = [("grpc.max_send_message_length", MAX_MESSAGE_BYTES)]
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), handlers=[Provider()], options=options)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    reattach = {
        ADDRESS: {
            "Protocol": "grpc",
            "ProtocolVersion": 6,
            "Pid": os.getpid(),
            "Test": True,
            "Addr": {"Network": "tcp", "String": f"127.0.0.1:{port}"},
        }
    }
    return server, {"TF_REATTACH_PROVIDERS": json.dumps(reattach)}
