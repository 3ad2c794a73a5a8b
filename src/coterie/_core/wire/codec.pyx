"""Frames of Kafka's protocol: the header, and the body by the layout of its API and version.

A frame excludes the four bytes of its length. Layouts are made at the first use of a version, by a
function of the caller, so nothing here knows an API by name; the one exception is ApiVersions,
whose response header never has tagged fields.
Cost: a dict or tuple for each struct. A large body is read with Python's garbage collector off.
"""
cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int16_t, int32_t, uint8_t

from coterie._core.checks cimport buffer_of, flag_of, int32_of, text_or_none, within
from coterie._core.codec.cursor cimport (
    OK, Status, read_i16, read_i32, read_string16, remaining)
from coterie._core.codec.layout cimport (
    FRAME, Layout, Reading, Writing, begin, end, put_i16, put_i32, put_text16, put_uvarint,
    read_struct, read_text, reading, refused, skip_tags, write_struct, written)
from coterie._core.collector cimport PyGC_Disable, PyGC_Enable

from coterie.errors import ArgumentError, WireError

cdef int API_VERSIONS = 18      # its response header never has tagged fields
cdef enum:
    LOW_KEYS = 128             # API keys that index a list; Kafka has no others
    LARGE = 1000               # bytes of a body of hundreds of objects


@cython.final
@cython.freelist(8)
cdef class Request:
    """A decoded request."""
    cdef readonly int api_key
    cdef readonly int api_version
    cdef readonly int correlation_id
    cdef readonly str client_id
    cdef readonly object body        # a dict, or a row
    cdef readonly Py_ssize_t left_over

    def __repr__(self):
        return (f"Request(api_key={self.api_key}, api_version={self.api_version}, "
                f"correlation_id={self.correlation_id}, client_id={self.client_id!r}, "
                f"body={self.body!r}, left_over={self.left_over})")


@cython.final
@cython.freelist(8)
cdef class Response:
    """A decoded response; see ``Request`` for the fields."""
    cdef readonly int correlation_id
    cdef readonly object body        # a dict, or a row
    cdef readonly Py_ssize_t left_over

    def __repr__(self):
        return (f"Response(correlation_id={self.correlation_id}, body={self.body!r}, "
                f"left_over={self.left_over})")


@cython.final
cdef class Versions:
    """The layouts of one API, each made at its first use."""
    cdef int first
    cdef int last
    cdef int flexible          # first version with compact lengths and tagged fields
    cdef object make           # (version, "request" or "response") -> Layout
    cdef str name
    cdef list requests         # layouts from the first version on; None: not made yet
    cdef list responses

    def __init__(self, str name not None, int first, int last, int flexible, make):
        self.name = name
        self.first, self.last, self.flexible = first, last, flexible
        self.make = make
        self.requests = [None] * (last - first + 1)
        self.responses = [None] * (last - first + 1)

    cdef Layout layout(self, int version, bint of_request):
        """Return the layout of a version from the first to the last."""
        cdef list layouts = self.requests if of_request else self.responses
        cdef object layout = layouts[version - self.first]
        if layout is None:
            layout = <Layout?>self.make(version, "request" if of_request else "response")
            if (<Layout>layout).fields is None:
                raise TypeError("make must return a Layout of layout_of, not a bare Layout")
            layouts[version - self.first] = layout
        return <Layout>layout


@cython.final
cdef class Codec:
    """Decodes and encodes the messages of a table."""
    cdef dict apis
    cdef list by_low_key       # the same by key, for keys below LOW_KEYS

    def __init__(self, apis, make):
        self.apis = {}
        for api in apis:
            key, name, first, last, flexible = api
            self.apis[key] = Versions(
                name, first, last, flexible,
                lambda version, direction, api=api: make(api, version, direction))
        self.by_low_key = [self.apis.get(key) for key in range(LOW_KEYS)]

    cdef object api_of(self, int key):
        return self.by_low_key[key] if 0 <= key < LOW_KEYS else self.apis.get(key)

    def layout(self, api_key, api_version, direction):
        """Return the layout of one message."""
        if direction not in ("request", "response"):
            raise ArgumentError(f"direction must be request or response, not {direction!r}")
        return self.known(api_key, api_version).layout(api_version, direction == "request")

    cdef Versions known(self, api_key, api_version):
        """Return the API of a key, whose version must be in the table."""
        cdef Versions api = self.api_of(<int>within(api_key, "api_key", -32768, 32767))
        if api is None:
            raise ArgumentError(f"api_key {api_key} is of no API in the table")
        if not api.first <= within(api_version, "api_version", -32768, 32767) <= api.last:
            raise ArgumentError(f"{api.name} has versions {api.first} to {api.last}, "
                                f"not {api_version}")
        return api

    def decode_request(self, frame, *, fill=False, tags=False, rows=False):
        """Decode a request, header and body."""
        cdef Reading r
        cdef Request request = Request.__new__(Request)
        cdef bytes data = bytes_in(frame)
        cdef Versions api
        start(&r, data, fill, tags, rows)
        api = self.read_header(&r, request)
        if not api.first <= request.api_version <= api.last:
            raise WireError(f"{api.name} has versions {api.first} to {api.last}, "
                            f"not {request.api_version}", stage="version", request=request)
        try:
            request.body = read_body(&r, api.layout(request.api_version, True))
        except WireError as error:
            error.request = request
            error.args = (f"{api.name} {request.api_version}: {error}",)
            raise
        request.left_over = remaining(&r.cur)
        return request

    cdef Versions read_header(self, Reading* r, Request request):
        cdef int16_t key, version
        cdef int32_t correlation_id, size
        cdef const uint8_t* at
        cdef Versions api
        cdef Status status = read_i16(&r.cur, &key)
        if status == OK:
            status = read_i16(&r.cur, &version)
        if status == OK:
            status = read_i32(&r.cur, &correlation_id)
        if status == OK:
            status = read_string16(&r.cur, &at, &size)
        if status != OK:
            raise header_error(r, status)
        api = self.api_of(key)
        if api is None:
            raise WireError(f"api key {key} is of no API in the table", stage="header")
        if version >= api.flexible:
            status = skip_tags(&r.cur)
            if status != OK:
                raise header_error(r, status)
        request.api_key, request.api_version = key, version
        request.correlation_id = correlation_id
        request.client_id = None if size < 0 else read_text(at, size)
        request.left_over = remaining(&r.cur)
        return api

    def decode_response(self, api_key, api_version, frame, *, fill=False, tags=False, rows=False,
                        elements_max=None):
        """Decode the response to a request of that API and version; see ``decode_request``."""
        cdef Reading r
        cdef Response response = Response.__new__(Response)
        cdef Versions api = self.known(api_key, api_version)
        cdef bytes data = bytes_in(frame)
        cdef int32_t correlation_id
        cdef Status status
        start(&r, data, fill, tags, rows)
        if elements_max is not None:
            r.elements = within(elements_max, "elements_max", 0, INT32_MAX)
        status = read_i32(&r.cur, &correlation_id)
        if status == OK and api_version >= api.flexible and api_key != API_VERSIONS:
            status = skip_tags(&r.cur)
        if status != OK:
            raise header_error(&r, status)
        response.correlation_id = correlation_id
        try:
            response.body = read_body(&r, api.layout(api_version, False))
        except WireError as error:
            error.args = (f"{api.name} {api_version} response: {error}",)
            raise
        response.left_over = remaining(&r.cur)
        return response

    def encode_request(self, api_key, api_version, body, *, correlation_id=0, client_id=None):
        """Encode a request as a frame without its length."""
        cdef Writing w
        cdef Versions api = self.known(api_key, api_version)
        cdef Layout layout = api.layout(api_version, True)
        cdef int32_t correlation = int32_of(correlation_id, "correlation_id")
        begin(&w)
        try:
            put_i16(&w, <int16_t>api_key)
            put_i16(&w, <int16_t>api_version)
            put_i32(&w, correlation)
            put_text16(&w, "client_id", text_or_none(client_id, "client_id"))
            if layout.plan.flexible:
                put_uvarint(&w, 0)
            write_struct(&w, layout, body, "body")
            return written(&w)
        finally:
            end(&w)

    def encode_response(self, api_key, api_version, body, *, correlation_id=0):
        """Encode a response; see ``encode_request``."""
        cdef Writing w
        cdef Versions api = self.known(api_key, api_version)
        cdef Layout layout = api.layout(api_version, False)
        cdef int32_t correlation = int32_of(correlation_id, "correlation_id")
        begin(&w)
        try:
            put_i32(&w, correlation)
            if layout.plan.flexible and api_key != API_VERSIONS:
                put_uvarint(&w, 0)
            write_struct(&w, layout, body, "body")
            return written(&w)
        finally:
            end(&w)


cdef bytes bytes_in(object frame):
    return frame if type(frame) is bytes else bytes(buffer_of(frame, "frame"))


cdef inline int start(Reading* r, bytes data, object fill, object tags, object rows) except -1:
    r[0] = reading(data, PyBytes_GET_SIZE(data), FRAME)
    r.fill, r.tags, r.rows = flag(fill, "fill"), flag(tags, "tags"), flag(rows, "rows")
    return 0


cdef inline bint flag(object value, str name) except -1:
    return value is True or (value is not False and flag_of(value, name))


cdef object read_body(Reading* r, Layout layout):
    """Read a body; a large one with Python's garbage collector off. The collector would traverse
    everything read so far after every 700 dicts or lists, and none of it can be garbage yet."""
    cdef bint was_enabled
    if remaining(&r.cur) < LARGE:
        return read_struct(r, layout)
    was_enabled = PyGC_Disable()
    try:
        return read_struct(r, layout)
    finally:
        if was_enabled:
            PyGC_Enable()


cdef object header_error(Reading* r, Status status):
    error = refused(r, "header", status)
    error.stage = "header"
    return error
