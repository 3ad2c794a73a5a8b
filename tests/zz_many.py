import sys; sys.path.insert(0,'.')
from hypothesis import settings
from tests.insight import test_compaction as t
try: settings(max_examples=15000,deadline=None,derandomize=False,database=None)(t.test_a_life_is_reported_alike_since_the_log_is_whole)(); print("ok")
except BaseException as e: import traceback; traceback.print_exc(); print(*(getattr(e,"__notes__",[])))
