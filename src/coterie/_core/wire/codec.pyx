"""See ``codec.pyi``."""
cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, uint8_t

from coterie._core.checks cimport buffer_of, flag_of, int32_of, text_or_none, within
from coterie._core.codec.cursor cimport (
    OK, Status, read_i16, read_i32, read_string16, remaining)
from coterie._core.codec.decode cimport (
    FRAME, Reading, read_struct, read_text, reading, refused, skip_tags)
from coterie._core.codec.encode cimport (
    Writing, begin, end, put_i16, put_i32, put_text16, put_uvarint, write_struct, written)
from coterie._core.codec.layout cimport Layout
from coterie._core.collector cimport PyGC_Disable, PyGC_Enable

from coterie.errors import ArgumentError, WireError

cdef int API_VERSIONS = 18      # its answers never have tagged fields in their header
cdef enum:
    NEAR = 128
    LARGE = 1000               # bytes of a body of hundreds of objects


@cython.final
@cython.freelist(8)
cdef class Request:
    """A request that was read."""
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
    """A response that was read: see ``Request``."""
    cdef readonly int correlation_id
    cdef readonly object body        # a dict, or a row
    cdef readonly Py_ssize_t left_over

    def __repr__(self):
        return (f"Response(correlation_id={self.correlation_id}, body={self.body!r}, "
                f"left_over={self.left_over})")


@cython.final
cdef class Versions:
    """The layouts of one API, made when they are first met."""
    cdef int first
    cdef int last
    cdef int flexible          # from which version on
    cdef object make           # (version, "request" or "response") -> Layout
    cdef str name
    cdef list requests         # layouts from the first version on; None until one is met
    cdef list responses

    def __init__(self, str name not None, int first, int last, int flexible, make):
        self.name = name
        self.first, self.last, self.flexible = first, last, flexible
        self.make = make
        self.requests = [None] * (last - first + 1)
        self.responses = [None] * (last - first + 1)

    cdef Layout layout(self, int version, bint of_request):
        """Of a version from the first to the last."""
        cdef list made = self.requests if of_request else self.responses
        cdef object found = made[version - self.first]
        if found is None:
            found = <Layout?>self.make(version, "request" if of_request else "response")
            if (<Layout>found).fields is None:
                raise TypeError("make must return what layout_of made, not a bare Layout")
            made[version - self.first] = found
        return <Layout>found


@cython.final
cdef class Codec:
    """Reads and writes the messages of a table."""
    cdef dict apis
    cdef list near             # those of low keys, which all of Kafka's are, by key

    def __init__(self, apis, make):
        self.apis = {}
        for api in apis:
            key, name, first, last, flexible = api
            self.apis[key] = Versions(
                name, first, last, flexible,
                lambda version, direction, api=api: make(api, version, direction))
        self.near = [self.apis.get(key) for key in range(NEAR)]

    cdef object api_of(self, int key):
        return self.near[key] if 0 <= key < NEAR else self.apis.get(key)

    def layout(self, api_key, api_version, direction):
        """Return the layout of one message."""
        if direction not in ("request", "response"):
            raise ArgumentError(f"direction must be request or response, not {direction!r}")
        return self.known(api_key, api_version).layout(api_version, direction == "request")

    cdef Versions known(self, api_key, api_version):
        """The API of a message that we are to write or are told to read."""
        cdef Versions found = self.api_of(<int>within(api_key, "api_key", -32768, 32767))
        if found is None:
            raise ArgumentError(f"api_key {api_key} is of no API in the table")
        if not found.first <= within(api_version, "api_version", -32768, 32767) <= found.last:
            raise ArgumentError(f"{found.name} has versions {found.first} to {found.last}, "
                                f"not {api_version}")
        return found

    def decode_request(self, frame, *, fill=False, tags=False, rows=False):
        """Read a request: header, then body."""
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
            raise unread(r, status)
        api = self.api_of(key)
        if api is None:
            raise WireError(f"api key {key} is of no API in the table", stage="header")
        if version >= api.flexible:
            status = skip_tags(&r.cur)
            if status != OK:
                raise unread(r, status)
        request.api_key, request.api_version = key, version
        request.correlation_id = correlation_id
        request.client_id = None if size < 0 else read_text(at, size)
        request.left_over = remaining(&r.cur)
        return api

    def decode_response(self, api_key, api_version, frame, *, fill=False, tags=False, rows=False):
        """Read the response to a request of that API and version; see ``decode_request``."""
        cdef Reading r
        cdef Response response = Response.__new__(Response)
        cdef Versions api = self.known(api_key, api_version)
        cdef bytes data = bytes_in(frame)
        cdef int32_t correlation_id
        cdef Status status
        start(&r, data, fill, tags, rows)
        status = read_i32(&r.cur, &correlation_id)
        if status == OK and api_version >= api.flexible and api_key != API_VERSIONS:
            status = skip_tags(&r.cur)
        if status != OK:
            raise unread(&r, status)
        response.correlation_id = correlation_id
        try:
            response.body = read_body(&r, api.layout(api_version, False))
        except WireError as error:
            error.args = (f"{api.name} {api_version} response: {error}",)
            raise
        response.left_over = remaining(&r.cur)
        return response

    def encode_request(self, api_key, api_version, body, *, correlation_id=0, client_id=None):
        """Write a request: the frame without the length before it."""
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
        """Write a response; see ``encode_request``."""
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
    """Python's garbage collector rests while a large body is read: it would go through all that
    was read so far at every 700th dict or list, and none of it can be garbage yet."""
    cdef bint rests
    if remaining(&r.cur) < LARGE:
        return read_struct(r, layout)
    rests = PyGC_Disable()
    try:
        return read_struct(r, layout)
    finally:
        if rests:
            PyGC_Enable()


cdef object unread(Reading* r, Status status):
    error = refused(r, "header", status)
    error.stage = "header"
    return error
