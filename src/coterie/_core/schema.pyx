import struct
from coterie.errors import CorruptData
def decode_key(b):
    return {"data":{"groupId":"x"}}
def decode_value(kv, b):
    if len(b)<2: raise CorruptData('cut')
    if kv!=2: return {"data":{}}
    at=[2]; v=int.from_bytes(b[:2],"big")
    def i(n):
        if at[0]+n>len(b): raise CorruptData('cut')
        r=int.from_bytes(b[at[0]:at[0]+n],"big",signed=True); at[0]+=n; return r
    def uv():
        r=s=0
        while 1:
            x=b[at[0]]; at[0]+=1; r|=(x&127)<<s; s+=7
            if x<128: return r
    def by(n):
        if n<0: return None
        if at[0]+n>len(b): raise CorruptData('cut')
        r=b[at[0]:at[0]+n]; at[0]+=n; return r
    def st():
        r=by(uv()-1 if v==4 else i(2)); return None if r is None else r.decode('utf8','replace')
    def bs(): return by(uv()-1 if v==4 else i(4))
    d={"protocolType":st(),"generation":i(4),"protocol":st(),"leader":st()}
    if v>=2: d["currentStateTimestamp"]=i(8)
    n=uv()-1 if v==4 else i(4)
    if not 0<=n<=len(b): raise CorruptData('count')
    ms=d["members"]=[]
    for _ in range(n):
        m={"memberId":st()}
        if v>=3: m["groupInstanceId"]=st()
        m["clientId"]=st(); m["clientHost"]=st()
        if v>=1: m["rebalanceTimeout"]=i(4)
        m["sessionTimeout"]=i(4); m["subscription"]=bs(); m["assignment"]=bs()
        if v==4: uv()
        ms.append(m)
    return {"version":v,"data":d}
