"""MindIE's config.json as pydantic models. Generated from spec/config.schema.yaml; do not edit."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictStr

from .base import ContractModel, Integer, NotNull, OneOf


class HealthCheckSection(ContractModel):
    """
    The health probe.
    """

    npuUsageThreshold: Annotated[
        Annotated[int, Integer(ge=0, le=100)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Percent of use from which on a failed probe means busy.
    """


class ServerSection(ContractModel):
    """
    Addresses, limits and forms of the HTTP side.
    """

    ipAddress: Annotated[
        Annotated[str, Field(strict=True, min_length=2, max_length=45)] | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Address of the business plane.
    """

    managementIpAddress: Annotated[
        Annotated[str, Field(strict=True, min_length=2, max_length=45)] | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Address of the management and the metrics plane.
    """

    port: Annotated[
        Annotated[int, Integer(ge=1024, le=65535)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Port of the business plane.
    """

    managementPort: Annotated[
        Annotated[int, Integer(ge=1024, le=65535)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Port of the management plane.
    """

    metricsPort: Annotated[
        Annotated[int, Integer(ge=1024, le=65535)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Port of the metrics plane.
    """

    allowAllZeroIpListening: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Allows an address of all zeros.
    """

    maxLinkNum: Annotated[
        Annotated[int, Integer(ge=1, le=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Requests that are worked on at the same time.
    """

    httpsEnabled: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    TLS on all planes.
    """

    fullTextEnabled: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Cumulative streams.
    """

    tlsCaPath: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Folder of the CA files.
    """

    tlsCaFile: Annotated[
        Annotated[
            list[Annotated[str, Field(strict=True, min_length=1, max_length=4096)]], Field(min_length=1, max_length=3)
        ]
        | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    CAs that client certificates are held to.
    """

    tlsCert: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Certificate of the business plane.
    """

    tlsPk: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Its private key.
    """

    tlsPkPwd: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    File with the password of the private key.
    """

    tlsCrlPath: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Folder of the revocation lists.
    """

    tlsCrlFiles: Annotated[
        Annotated[
            list[Annotated[str, Field(strict=True, min_length=1, max_length=4096)]], Field(min_length=1, max_length=3)
        ]
        | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Revocation lists.
    """

    managementTlsCaFile: Annotated[
        Annotated[
            list[Annotated[str, Field(strict=True, min_length=1, max_length=4096)]], Field(min_length=1, max_length=3)
        ]
        | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    CAs of the management plane.
    """

    managementTlsCert: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Certificate of the management plane.
    """

    managementTlsPk: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Its private key.
    """

    managementTlsPkPwd: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    File with its password.
    """

    managementTlsCrlPath: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Folder of its revocation lists.
    """

    managementTlsCrlFiles: Annotated[
        Annotated[
            list[Annotated[str, Field(strict=True, min_length=1, max_length=4096)]], Field(min_length=1, max_length=3)
        ]
        | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Its revocation lists.
    """

    metricsTlsCaFile: Annotated[
        Annotated[
            list[Annotated[str, Field(strict=True, min_length=1, max_length=4096)]], Field(min_length=1, max_length=3)
        ]
        | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    CAs of the metrics plane.
    """

    metricsTlsCert: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Certificate of the metrics plane.
    """

    metricsTlsPk: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Its private key.
    """

    metricsTlsPkPwd: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    File with its password.
    """

    metricsTlsCrlPath: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Folder of its revocation lists.
    """

    metricsTlsCrlFiles: Annotated[
        Annotated[
            list[Annotated[str, Field(strict=True, min_length=1, max_length=4096)]], Field(min_length=1, max_length=3)
        ]
        | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Its revocation lists.
    """

    tlsClientAuth: Annotated[
        Literal["required", "optional", "none"] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Whether clients need a certificate.
    """

    managementTlsClientAuth: Annotated[
        Literal["required", "optional", "none"] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. The same of the management plane.
    """

    metricsTlsClientAuth: Annotated[
        Literal["required", "optional", "none"] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. The same of the metrics plane.
    """

    apiKeysFile: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. File of API keys.
    """

    openPaths: Annotated[
        Annotated[
            list[Annotated[str, Field(strict=True, min_length=1, max_length=256, pattern="^/")]], Field(max_length=64)
        ]
        | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Own key. Paths that need no API key.
    """

    kmcKsfMaster: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Key store of MindIE's password tool.
    """

    kmcKsfStandby: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Its copy.
    """

    inferMode: Annotated[Literal["standard", "dmi"] | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    dmi computes prompts and answers on different servers.
    """

    interCommTLSEnabled: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    TLS between such servers.
    """

    interCommPort: Annotated[
        Annotated[int, Integer(ge=1024, le=65535)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Port between them.
    """

    interCommTlsCaPath: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Folder of their CA files.
    """

    interCommTlsCaFiles: Annotated[
        Annotated[
            list[Annotated[str, Field(strict=True, min_length=1, max_length=4096)]], Field(min_length=1, max_length=3)
        ]
        | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Their CAs.
    """

    interCommTlsCert: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Their certificate.
    """

    interCommPk: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Its private key.
    """

    interCommPkPwd: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    File with its password.
    """

    interCommTlsCrlPath: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Folder of their revocation lists.
    """

    interCommTlsCrlFiles: Annotated[
        Annotated[
            list[Annotated[str, Field(strict=True, min_length=1, max_length=4096)]], Field(min_length=1, max_length=3)
        ]
        | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Their revocation lists.
    """

    openAiSupport: Annotated[
        Annotated[str, Field(strict=True, max_length=256)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Form of answers and errors.
    """

    tokenTimeout: Annotated[
        Annotated[int, Integer(ge=1, le=3600)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Seconds until the first token, and between two.
    """

    e2eTimeout: Annotated[
        Annotated[int, Integer(ge=1, le=65535)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Seconds for a whole request.
    """

    maxRequestLength: Annotated[
        Annotated[int, Integer(ge=1, le=100)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    MB of a body.
    """

    maxJsonDepth: Annotated[
        Annotated[int, Integer(ge=10, le=100)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Arrays and objects inside each other.
    """

    distDPServerEnabled: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Data parallel servers.
    """

    layerwiseDisaggregated: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Splits layers between an edge and a cloud server.
    """

    layerwiseDisaggregatedRoleType: Annotated[
        Annotated[str, Field(strict=True, max_length=256)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Role in such a split.
    """

    layerwiseDisaggregatedMasterIpAddress: Annotated[
        Annotated[str, Field(strict=True, max_length=256)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Its master.
    """

    layerwiseDisaggregatedSlaveIpAddress: Annotated[
        Annotated[list[Annotated[str, Field(strict=True, max_length=256)]], Field(max_length=1024)] | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Its slaves.
    """

    layerwiseDisaggregatedDataPort: Annotated[
        Annotated[int, Integer(ge=1024, le=65535)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Its data port.
    """

    layerwiseDisaggregatedCrtlPort: Annotated[
        Annotated[list[Annotated[int, Integer(ge=1024, le=65535)]], Field(max_length=16)] | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Its control ports.
    """

    HealthCheckConfig: Annotated[HealthCheckSection | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    The health probe.
    """

    maxConnections: Annotated[
        Annotated[int, Integer(ge=1, le=1000000)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Connections of the business plane.
    """

    maxOtherConnections: Annotated[
        Annotated[int, Integer(ge=1, le=1000000)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Connections of each other plane that has an address of its own.
    """

    headerTimeout: Annotated[
        Annotated[int, Integer(ge=1, le=3600)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Seconds for the headers of a request.
    """

    bodyTimeout: Annotated[
        Annotated[int, Integer(ge=1, le=3600)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Seconds for the body of a request, without the time in which it waits unread.
    """

    writeTimeout: Annotated[
        Annotated[int, Integer(ge=1, le=3600)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Seconds in which a client has to take 64 KiB, or all that there is for it.
    """

    keepAliveTimeout: Annotated[
        Annotated[int, Integer(ge=1, le=3600)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Seconds that a connection may wait for its next request.
    """

    sendBufferBytes: Annotated[
        Annotated[int, Integer(ge=4096, le=67108864)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Bytes that the system keeps for a client that does not read, besides 64 KiB here.
    """

    lingerTime: Annotated[
        Annotated[int, Integer(ge=0, le=60)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Seconds in which what a refused client still sends is read.
    """

    maxHeaderBytes: Annotated[
        Annotated[int, Integer(ge=1024, le=1048576)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Bytes of all headers of a request.
    """

    maxHeaders: Annotated[
        Annotated[int, Integer(ge=16, le=10000)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Headers of a request.
    """

    mediaDomains: Annotated[
        Annotated[list[Annotated[str, Field(strict=True, min_length=1, max_length=260)]], Field(max_length=1000)]
        | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Own key. Hosts that media are fetched from.
    """

    mediaPrivateNetworks: Annotated[
        Annotated[list[Annotated[str, Field(strict=True, min_length=1, max_length=50)]], Field(max_length=1000)] | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Own key. Where hosts of mediaDomains may be although the address is private.
    """

    mediaFolder: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Folder of local files; empty: none are read.
    """

    mediaSpoolFolder: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Folder for the media of running requests.
    """

    maxMediaItems: Annotated[
        Annotated[int, Integer(ge=1, le=20)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Images, videos and recordings of a request together.
    """

    maxImages: Annotated[
        Annotated[int, Integer(ge=0, le=20)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Images of a request.
    """

    maxVideos: Annotated[
        Annotated[int, Integer(ge=0, le=20)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Videos of a request.
    """

    maxAudios: Annotated[
        Annotated[int, Integer(ge=0, le=20)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Recordings of a request.
    """

    maxMediaSize: Annotated[
        Annotated[int, Integer(ge=1, le=100000)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. MB of all media of a request together.
    """

    maxImageSize: Annotated[
        Annotated[int, Integer(ge=1, le=10000)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. MB of an image.
    """

    maxVideoSize: Annotated[
        Annotated[int, Integer(ge=1, le=100000)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. MB of a video.
    """

    maxAudioSize: Annotated[
        Annotated[int, Integer(ge=1, le=10000)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. MB of a recording.
    """

    maxInputAudioSize: Annotated[
        Annotated[int, Integer(ge=1, le=10000)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. MB of the recording of an input_audio part, decoded.
    """

    maxMediaPixels: Annotated[
        Annotated[int, Integer(ge=1, le=1073741824)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Pixels of an image or of one frame of a video.
    """

    maxVideoTime: Annotated[
        Annotated[int, Integer(ge=1, le=86400)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Seconds of a video.
    """

    maxAudioTime: Annotated[
        Annotated[int, Integer(ge=1, le=86400)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Seconds of a recording.
    """

    mediaConnectTimeout: Annotated[
        Annotated[int, Integer(ge=1, le=600)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Seconds in which a host is found and connected to, and as many for TLS.
    """

    mediaReadTimeout: Annotated[
        Annotated[int, Integer(ge=1, le=600)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Seconds between two pieces of an answer.
    """

    mediaFetchTimeout: Annotated[
        Annotated[int, Integer(ge=1, le=3600)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Seconds for one item, redirects included.
    """

    mediaQueueTimeout: Annotated[
        Annotated[int, Integer(ge=1, le=3600)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Seconds in which an item waits for its turn to be fetched or decoded.
    """

    maxMediaRedirects: Annotated[
        Annotated[int, Integer(ge=0, le=20)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Redirects that are followed for an item.
    """

    maxMediaFetches: Annotated[
        Annotated[int, Integer(ge=1, le=1000)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Items that are fetched from one host at the same time.
    """

    mediaDecodeTimeout: Annotated[
        Annotated[int, Integer(ge=1, le=3600)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Seconds for decoding an item.
    """

    mediaDecodeMemory: Annotated[
        Annotated[int, Integer(ge=512, le=1048576)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. MB of address space of a process that decodes.
    """

    mediaDecodeWorkers: Annotated[
        Annotated[int, Integer(ge=1, le=64)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Processes that decode.
    """

    drainTimeout: Annotated[
        Annotated[int, Integer(ge=0, le=86400)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Seconds that running requests get after a stop signal.
    """

    strictUnknown: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Own key. Refuses unknown fields of requests.
    """

    relaxedRules: Annotated[
        Annotated[list[Annotated[str, Field(strict=True, min_length=1, max_length=100)]], Field(max_length=100)] | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Own key. Rules of the tools family that are not applied.
    """

    compatRefusals: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Own key. Refuses what a MindIE of this file would refuse.
    """


class KvPoolSection(ContractModel):
    """
    A store of keys and values outside the engine.
    """

    backend: Annotated[
        Annotated[str, Field(strict=True, max_length=256)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Name of the store; empty for none.
    """

    configPath: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Its configuration.
    """

    asyncWrite: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Whether writes are waited for.
    """


class LoraModule(ContractModel):
    """
    A LoRA adapter.
    """

    name: Annotated[str, Field(strict=True, pattern="^[A-Za-z0-9_.-]{1,256}$")]
    """
    What requests name.
    """

    path: Annotated[str, Field(strict=True, min_length=1, max_length=4096)]
    """
    Folder of the adapter.
    """

    baseModelName: Annotated[
        Annotated[str, Field(strict=True, min_length=1, max_length=256)] | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    The model that it changes.
    """


class ToolCallOptions(ContractModel):
    """
    How the model writes tool calls.
    """

    tool_call_parser: Annotated[
        Annotated[str, Field(strict=True, max_length=256)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Name of a parser.
    """


class KvCacheOptions(ContractModel):
    """
    Layout of keys and values.
    """

    enable_nz: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    A layout of NPUs.
    """


class ModelOptions(ContractModel):
    """
    Options of one type of models.
    """

    enable_reasoning: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Tells thinking apart from the answer.
    """

    chat_template: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    A .jinja file.
    """

    tool_call_options: Annotated[ToolCallOptions | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    How the model writes tool calls.
    """

    early_stopping_text: Annotated[
        Annotated[str, Field(strict=True, min_length=1, max_length=1024)] | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Closes a thought at its thinking_budget.
    """

    kv_cache_options: Annotated[KvCacheOptions | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Layout of keys and values.
    """

    kv_cache_option: Annotated[KvCacheOptions | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Layout of keys and values.
    """

    ep_level: Annotated[
        Annotated[int, Integer(ge=1, le=2)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Kind of expert parallelism.
    """

    enable_init_routing_cutoff: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Drops experts of small weight.
    """

    topk_scaling_factor: Annotated[
        Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, le=1)] | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Where that cut lies.
    """

    alltoall_ep_buffer_scale_factors: Annotated[
        Annotated[
            list[
                Annotated[
                    list[Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=1000000000)]],
                    Field(max_length=1024),
                ]
            ],
            Field(max_length=1024),
        ]
        | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Sizes of buffers between experts.
    """


class ModelEntry(ContractModel):
    """
    A model.
    """

    modelInstanceType: Annotated[
        Literal["Standard", "StandardMock"] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    StandardMock: no model is loaded.
    """

    modelName: Annotated[str, Field(strict=True, pattern="^[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,254}[A-Za-z0-9])?$")]
    """
    The name that requests use.
    """

    modelWeightPath: Annotated[
        Annotated[str, Field(strict=True, min_length=1, max_length=4096)] | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Folder of the weights.
    """

    worldSize: Annotated[
        Annotated[int, Integer(ge=1, le=1048576)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Devices that share the model.
    """

    cpuMemSize: Annotated[
        Annotated[int, Integer(ge=0, le=4294967295)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    GB that sequences are swapped to.
    """

    npuMemSize: Annotated[
        Annotated[int, Integer(ge=-1, le=1048576, exclude=(0,))] | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    GB for keys and values; -1: as much as fits.
    """

    backendType: Annotated[Literal["atb", "torch", "ms"] | None, NotNull(), Field(exclude_if=lambda v: v is None)] = (
        None
    )
    """
    MindIE's own backends.
    """

    trustRemoteCode: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Runs code that lies beside the weights.
    """

    async_scheduler_wait_time: Annotated[
        Annotated[int, Integer(ge=0, le=2147483647)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Not documented by MindIE.
    """

    kv_trans_timeout: Annotated[
        Annotated[int, Integer(ge=-2147483648, le=2147483647)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Seconds for moving keys and values between servers.
    """

    kv_link_timeout: Annotated[
        Annotated[int, Integer(ge=-2147483648, le=2147483647)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Seconds for connecting such servers.
    """

    tp: Annotated[
        Annotated[int, Integer(ge=-1, le=1048576)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Tensor parallel ranks.
    """

    dp: Annotated[
        Annotated[int, Integer(ge=-1, le=1048576)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Data parallel ranks.
    """

    cp: Annotated[Annotated[int, Integer(ge=-1, le=2)] | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Context parallel ranks.
    """

    sp: Annotated[
        Annotated[int, Integer(ge=-1, le=1048576)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Sequence parallel ranks.
    """

    moe_tp: Annotated[
        Annotated[int, Integer(ge=-1, le=1048576)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Tensor parallel ranks of experts.
    """

    moe_ep: Annotated[
        Annotated[int, Integer(ge=-1, le=1048576)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Expert parallel ranks.
    """

    plugin_params: Annotated[
        Annotated[str, Field(strict=True, max_length=65536)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    A JSON object as text, with plugin_type.
    """

    models: Annotated[dict[str, ModelOptions] | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Options by the weights' model_type.
    """


class ModelDeploySection(ContractModel):
    """
    The model and its lengths.
    """

    maxSeqLen: Annotated[
        Annotated[int, Integer(ge=2, le=4294967295)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Tokens of prompt and answer together.
    """

    maxInputTokenLen: Annotated[
        Annotated[int, Integer(ge=1, le=4194304)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Tokens of a prompt.
    """

    truncation: Annotated[
        Annotated[Annotated[int, Integer(ge=-1, le=1)] | StrictBool, OneOf("integer", "boolean")] | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    What becomes of prompts that are too long.
    """

    maxLoras: Annotated[
        Annotated[int, Integer(ge=0, le=4294967295)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Adapters at the same time.
    """

    maxLoraRank: Annotated[
        Annotated[int, Integer(ge=0, le=4294967295)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Rank of an adapter.
    """

    LoraModules: Annotated[
        Annotated[list[LoraModule], Field(max_length=1024)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Adapters to start with.
    """

    speculationGamma: Annotated[
        Annotated[int, Integer(ge=0, le=65535)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Tokens that are guessed ahead.
    """

    loraDirectory: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. The only folder from which adapters may be loaded while the server runs.
    """

    ModelConfig: Annotated[list[ModelEntry], Field(min_length=1, max_length=1)]
    """
    The model: one.
    """


class ScheduleSection(ContractModel):
    """
    Sizes of the engine's steps.
    """

    templateType: Annotated[Literal["Standard", "Mix"] | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Whether prompts and answers are computed in the same steps.
    """

    templateName: Annotated[Literal["Standard_LLM"] | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Kind of model.
    """

    cacheBlockSize: Annotated[
        Annotated[int, Integer(ge=1, le=128)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Tokens of a page of keys and values.
    """

    maxPrefillBatchSize: Annotated[
        Annotated[int, Integer(ge=0, le=819200)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Prompts in one step; 0: maxBatchSize.
    """

    maxPrefillTokens: Annotated[
        Annotated[int, Integer(ge=1, le=4194304)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Tokens of prompts in one step.
    """

    prefillTimeMsPerReq: Annotated[
        Annotated[int, Integer(ge=0, le=1000)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Guess for supportSelectBatch.
    """

    prefillPolicyType: Annotated[
        Annotated[int, Integer(ge=0, le=0)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Order of prompts.
    """

    decodeTimeMsPerReq: Annotated[
        Annotated[int, Integer(ge=0, le=1000)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Guess for supportSelectBatch.
    """

    decodePolicyType: Annotated[
        Annotated[int, Integer(ge=0, le=0)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Order of answers.
    """

    maxBatchSize: Annotated[
        Annotated[int, Integer(ge=1, le=819200)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Sequences that run at the same time.
    """

    maxIterTimes: Annotated[
        Annotated[int, Integer(ge=1, le=4294967295)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Tokens of an answer.
    """

    maxPreemptCount: Annotated[
        Annotated[int, Integer(ge=0, le=819200)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Sequences that may be swapped out.
    """

    supportSelectBatch: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Chooses steps by guessed times.
    """

    maxQueueDelayMicroseconds: Annotated[
        Annotated[int, Integer(ge=500, le=1000000)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    How long the engine collects requests.
    """

    maxFirstTokenWaitTime: Annotated[
        Annotated[int, Integer(ge=0, le=3600000)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Milliseconds after which a waiting prompt goes first.
    """

    maxN: Annotated[Annotated[int, Integer(ge=1, le=8192)] | None, NotNull(), Field(exclude_if=lambda v: v is None)] = (
        None
    )
    """
    Choices of a request.
    """

    prefillChunkSize: Annotated[
        Annotated[int, Integer(ge=1, le=4194304)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Tokens of one prompt in one step.
    """

    maxNumPartialPrefills: Annotated[
        Annotated[int, Integer(ge=1, le=819200)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Prompts that are computed in part at the same time.
    """

    maxLongPartialPrefills: Annotated[
        Annotated[int, Integer(ge=1, le=819200)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Long ones among them.
    """

    longPrefillTokenThreshold: Annotated[
        Annotated[int, Integer(ge=1, le=4194304)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Tokens from which on a prompt is long.
    """

    stageSelectPolicy: Annotated[
        Annotated[int, Integer(ge=0, le=2)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Which of prompts and answers go first.
    """

    dynamicBatchSizeEnable: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Fits the batch to the expected times.
    """

    prefillExpectedTime: Annotated[
        Annotated[int, Integer(ge=0, le=10000)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Milliseconds expected until the first token.
    """

    decodeExpectedTime: Annotated[
        Annotated[int, Integer(ge=0, le=10000)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Milliseconds expected between tokens.
    """

    bufferResponseEnabled: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Evens out the times between tokens.
    """

    distributedEnable: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Distributed scheduling.
    """

    policyType: Annotated[
        Annotated[int, Integer(ge=0, le=65535)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Order of requests.
    """

    enablePrefixCache: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Obsolete.
    """

    enableSplit: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Obsolete.
    """

    maxQueue: Annotated[
        Annotated[int, Integer(ge=0, le=1000000)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Requests that wait in the engine for a place or for memory, of those that are worked on.
    """


class BackendSection(ContractModel):
    """
    The engine.
    """

    backendName: Annotated[
        Annotated[str, Field(strict=True, pattern="^[a-z_]{1,50}$")] | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Name of the engine.
    """

    modelInstanceNumber: Annotated[
        Annotated[int, Integer(ge=1, le=10)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Engines side by side.
    """

    npuDeviceIds: Annotated[
        Annotated[
            list[Annotated[list[Annotated[int, Integer(ge=0, le=65535)]], Field(min_length=1, max_length=1024)]],
            Field(min_length=1, max_length=10),
        ]
        | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Devices of each instance.
    """

    tokenizerProcessNumber: Annotated[
        Annotated[int, Integer(ge=1, le=32)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Processes that tokenise.
    """

    multiNodesInferEnabled: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    One model on several machines.
    """

    multiNodesInferPort: Annotated[
        Annotated[int, Integer(ge=1024, le=65535)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Port between them.
    """

    interNodeTLSEnabled: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    TLS between them.
    """

    interNodeTlsCaPath: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Folder of their CA files.
    """

    interNodeTlsCaFiles: Annotated[
        Annotated[
            list[Annotated[str, Field(strict=True, min_length=1, max_length=4096)]], Field(min_length=1, max_length=3)
        ]
        | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Their CAs.
    """

    interNodeTlsCert: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Their certificate.
    """

    interNodeTlsPk: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Its private key.
    """

    interNodeTlsPkPwd: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    File with its password.
    """

    interNodeTlsCrlPath: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Folder of their revocation lists.
    """

    interNodeTlsCrlFiles: Annotated[
        Annotated[
            list[Annotated[str, Field(strict=True, min_length=1, max_length=4096)]], Field(min_length=1, max_length=3)
        ]
        | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    Their revocation lists.
    """

    interNodeKmcKsfMaster: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Key store of MindIE's password tool.
    """

    interNodeKmcKsfStandby: Annotated[
        Annotated[str, Field(strict=True, max_length=4096)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Its copy.
    """

    kvPoolConfig: Annotated[KvPoolSection | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    A store of keys and values outside the engine.
    """

    ModelDeployConfig: ModelDeploySection
    """
    The model and its lengths.
    """

    ScheduleConfig: Annotated[ScheduleSection | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Sizes of the engine's steps.
    """

    engineStallSeconds: Annotated[
        Annotated[int, Integer(ge=1, le=3600)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Own key. Seconds after which a silent engine counts as dead.
    """


class LogSection(ContractModel):
    """
    The log level while the server runs.
    """

    dynamicLogLevel: Annotated[
        Annotated[str, Field(strict=True, pattern="^(?i:debug|info|warn|warning|error|critical)?$")] | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    From which level on lines are logged; empty: the level of the start.
    """

    dynamicLogLevelValidHours: Annotated[
        Annotated[int, Integer(ge=1, le=168)] | None, NotNull(), Field(exclude_if=lambda v: v is None)
    ] = None
    """
    Hours for which dynamicLogLevel holds.
    """

    dynamicLogLevelValidTime: Annotated[
        Annotated[str, Field(strict=True, pattern="^(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2})?$")]
        | None,
        NotNull(),
        Field(exclude_if=lambda v: v is None),
    ] = None
    """
    From when on these hours count, as year-month-day hour:minute:second; empty: from when the level was seen.
    """


class Config(ContractModel):
    """
    The whole file.
    """

    Version: Annotated[Literal["1.0.0"] | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Version of the file's form.
    """

    ServerConfig: Annotated[ServerSection | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    Addresses, limits and forms of the HTTP side.
    """

    BackendConfig: BackendSection
    """
    The engine.
    """

    LogConfig: Annotated[LogSection | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None
    """
    The log level while the server runs.
    """

    EnableDynamicAdjustTimeoutConfig: Annotated[StrictBool | None, NotNull(), Field(exclude_if=lambda v: v is None)] = (
        None
    )
    """
    Raises all inference timeouts to their maximum.
    """
